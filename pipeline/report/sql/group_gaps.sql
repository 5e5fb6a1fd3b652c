-- Times in which partitions of a group had no reader: in its run with the most downtime,
-- of the 20 groups with the most; of each the 300 longest in partition-seconds.
-- downtime_s: partition-seconds
-- rows_of_group: such times of the group in this run
SELECT
  run, `group`, number, name, cause, from_ns, until_ns, partitions, downtime_s,
  rows_of_group
FROM (
  SELECT
    u.run, u.`group`, u.number, u.name, u.cause, u.from_ns, u.until_ns, u.partitions,
    u.unread_ns / 1e9 AS downtime_s,
    count(*) OVER (PARTITION BY u.`group`) AS rows_of_group,
    row_number() OVER (
      PARTITION BY u.`group` ORDER BY u.unread_ns DESC, u.from_ns, u.number, u.position
    ) AS place
  FROM silver_unread AS u
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
  ) AS w ON w.run = u.run AND w.`group` = u.`group`
  WHERE u.cause NOT IN ('group_empty', 'work_ended') AND u.unread_ns > 0
)
WHERE place <= 300
ORDER BY `group`, place
