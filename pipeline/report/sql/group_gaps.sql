-- Times in which partitions of a group had no reader: in its run with the most downtime,
-- of the 12 groups with the most; of each the 300 longest in partition-seconds.
SELECT run, `group`, cause, from_ns, until_ns, partitions
FROM (
  SELECT u.run, u.`group`, u.cause, u.from_ns, u.until_ns, u.partitions,
    row_number() OVER (
      PARTITION BY u.`group` ORDER BY u.unread_ns DESC, u.from_ns, u.number, u.position
    ) AS place
  FROM silver_unread AS u
  JOIN (
    SELECT
      `group`, max_by(run, struct(downtime_s, rebalances, run)) AS run,
      sum(downtime_s) AS downtime_s, sum(paused_s) AS paused_s,
      sum(rebalances) AS rebalances
    FROM gold_groups
    GROUP BY `group`
    ORDER BY downtime_s DESC, paused_s DESC, rebalances DESC, `group`
    LIMIT 12
  ) AS w ON w.run = u.run AND w.`group` = u.`group`
  WHERE u.cause NOT IN ('group_empty', 'work_ended') AND u.unread_ns > 0
)
WHERE place <= 300
ORDER BY `group`, from_ns
