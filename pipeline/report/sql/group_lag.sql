-- Lag of a group over time, as its commits show it: in its run with the most downtime, of
-- the 20 groups with the most. The time of its commits is cut into 200 pieces; each has
-- the largest lag in it.
-- time_ns: the first commit of the piece
-- lag: records, the largest of the piece; partitions without a commit so far are not in it
SELECT run, `group`, min(time_ns) AS time_ns, max(lag) AS lag
FROM (
  SELECT
    run, `group`, time_ns, lag,
    floor(200 * (time_ns - min(time_ns) OVER (PARTITION BY run, `group`)) / (
      1 + max(time_ns) OVER (PARTITION BY run, `group`)
      - min(time_ns) OVER (PARTITION BY run, `group`)
    )) AS piece
  FROM (
    SELECT
      run, `group`, time_ns,
      sum(growth) OVER (
        PARTITION BY run, `group` ORDER BY time_ns, node, sequence
        RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ) AS lag
    FROM (
      SELECT
        run, `group`, time_ns, node, sequence,
        behind - coalesce(lag(behind) OVER (
          PARTITION BY run, `group`, topic, partition ORDER BY time_ns, node, sequence
        ), 0) AS growth
      FROM (
        SELECT
          c.run, c.`group`, c.time_ns, c.node, c.sequence, c.topic, c.partition,
          greatest(c.end_offset - c.offset, 0) AS behind
        FROM silver_commits AS c
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
        ) AS w ON w.run = c.run AND w.`group` = c.`group`
        WHERE c.error IS NULL AND c.end_offset IS NOT NULL
      )
    )
  )
)
GROUP BY run, `group`, piece
ORDER BY `group`, time_ns
