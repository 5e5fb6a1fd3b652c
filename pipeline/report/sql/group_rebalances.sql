-- Rebalances that cost a group time: in its run with the most downtime, of the 12 groups
-- with the most; of each the 6 with the most downtime.
-- downtime_s: partition-seconds without a reader, but of an Empty group
-- rows_of_group: such rebalances of the group in this run
SELECT
  run, `group`, number, started_ns, words, cause, culprit_name, downtime_s, rows_of_group
FROM (
  SELECT
    b.run, b.`group`, b.number, b.started_ns, b.words, b.cause, b.culprit_name,
    b.unread_ns / 1e9 AS downtime_s,
    count(*) OVER (PARTITION BY b.`group`) AS rows_of_group,
    row_number() OVER (
      PARTITION BY b.`group`
      ORDER BY b.unread_ns DESC, b.duration_ns DESC NULLS LAST, b.number
    ) AS place
  FROM silver_rebalances AS b
  JOIN (
    SELECT
      `group`, max_by(run, struct(downtime_s, rebalances, run)) AS run,
      sum(downtime_s) AS downtime_s, sum(paused_s) AS paused_s,
      sum(rebalances) AS rebalances
    FROM gold_groups
    GROUP BY `group`
    ORDER BY downtime_s DESC, paused_s DESC, rebalances DESC, `group`
    LIMIT 12
  ) AS w ON w.run = b.run AND w.`group` = b.`group`
  WHERE b.unread_ns > 0
)
WHERE place <= 6
ORDER BY `group`, started_ns, number
