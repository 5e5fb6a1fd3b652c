-- Lag of a group over time, at its commits, and when partitions get a reader again: in
-- its run with the most downtime, of the 20 groups with the most. The time is cut into
-- 200 pieces; each has the largest lag in it.
-- time_ns: the first of these moments in the piece
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
          k.run, k.`group`, k.time_ns, k.node, k.sequence, k.topic, k.partition,
          greatest(k.end_offset - k.committed, 0) AS behind
        FROM (
          SELECT
            e.*,
            last_value(`offset`) IGNORE NULLS OVER (
              PARTITION BY e.run, e.`group`, topic, partition
              ORDER BY time_ns, node, sequence
            ) AS committed
          FROM (
            SELECT
              run, `group`, time_ns, node, sequence, topic, partition, `offset`,
              end_offset
            FROM silver_commits
            WHERE error IS NULL AND end_offset IS NOT NULL
            UNION ALL
            SELECT
              run, `group`, until_ns, -1, 0, topic, ends.partition_numbers,
              CAST(NULL AS BIGINT), ends.end_offsets
            FROM (
              SELECT
                run, `group`, until_ns, topic,
                explode(arrays_zip(partition_numbers, end_offsets)) AS ends
              FROM silver_unread
              WHERE cause NOT IN ('group_empty', 'work_ended')
              AND end_offsets IS NOT NULL
            )
          ) AS e
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
          ) AS w ON w.run = e.run AND w.`group` = e.`group`
        ) AS k
        WHERE k.committed IS NOT NULL
      )
    )
  )
)
GROUP BY run, `group`, piece
ORDER BY `group`, time_ns
