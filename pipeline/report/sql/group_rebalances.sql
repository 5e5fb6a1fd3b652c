-- Rebalances of a group: in its run with the most downtime, of the 20 groups with the
-- most; of each the 12 with the most downtime.
-- duration_s: how long it took, in seconds; null: it has not ended
-- downtime_s: partition-seconds without a reader, but of an Empty group
-- members: number of members of the generation that it produced
-- rows_of_group: rebalances of the group in this run
SELECT
  run, `group`, number, started_ns, duration_s, outcome, cause, culprit_name, members,
  downtime_s, rows_of_group
FROM (
  SELECT
    b.run, b.`group`, b.number, b.started_ns, b.duration_ns / 1e9 AS duration_s,
    b.outcome, b.cause, b.culprit_name, size(b.members) AS members,
    b.unread_ns / 1e9 AS downtime_s,
    count(*) OVER (PARTITION BY b.`group`) AS rows_of_group,
    row_number() OVER (
      PARTITION BY b.`group`
      ORDER BY b.unread_ns DESC NULLS LAST, b.duration_ns DESC NULLS LAST, b.number
    ) AS place
  FROM silver_rebalances AS b
  JOIN (
    SELECT run, `group`
    FROM (
      SELECT
        run, `group`, downtime_s, rebalances,
        row_number() OVER (
          PARTITION BY `group` ORDER BY downtime_s DESC, rebalances DESC, run
        ) AS run_place
      FROM gold_groups
    )
    WHERE run_place = 1
    ORDER BY downtime_s DESC, rebalances DESC, `group`
    LIMIT 20
  ) AS w ON w.run = b.run AND w.`group` = b.`group`
)
WHERE place <= 12
ORDER BY `group`, started_ns, number
