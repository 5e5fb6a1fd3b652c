WITH lags AS (
    SELECT
        id, run, "group", time_ns, node, sequence,
        greatest(end_offset - "offset", 0) AS lag_
    FROM silver.commits
    JOIN part.partitions USING (run, "group", topic, "partition")
    WHERE error IS NULL AND end_offset IS NOT NULL
),

deltas AS (
    SELECT
        run, "group", time_ns, node, sequence,
        lag_ - coalesce(
            lag(lag_) OVER (PARTITION BY id ORDER BY time_ns, node, sequence), 0
        ) AS delta
    FROM lags
),

-- Starts of rebalances have a number and no delta.
told AS (
    SELECT
        run, "group", time_ns, node, sequence, NULL AS number,
        sum(delta)::BIGINT AS delta
    FROM deltas
    GROUP BY ALL
    UNION ALL
    SELECT run, "group", started_ns, node, sequence, number, NULL
    FROM silver.rebalances
),

totals AS (
    SELECT
        run, "group", time_ns, node, sequence, delta IS NOT NULL AS is_commit,
        (sum(delta) OVER so_far)::BIGINT AS total,
        last_value(number IGNORE NULLS) OVER so_far AS number
    FROM told
    WINDOW so_far AS (
        PARTITION BY run, "group" ORDER BY time_ns, node, sequence
        ROWS UNBOUNDED PRECEDING
    )
),

befores AS (
    SELECT
        t.run, t.group, t.number, t.total AS lag_before, r.started_ns, r.ended_ns
    FROM totals AS t
    JOIN silver.rebalances AS r
        ON t.run = r.run AND t.group = r.group AND t.number = r.number
    WHERE NOT t.is_commit AND t.total IS NOT NULL AND r.outcome = 'completed'
),

peaks AS (
    SELECT
        run, "group", number, total AS lag_peak, time_ns AS peak_ns,
        (time_ns, node, sequence) AS peak_place
    FROM totals
    JOIN befores USING (run, "group", number)
    WHERE is_commit AND time_ns <= ended_ns + 30000000000
    QUALIFY
        row_number() OVER (
            PARTITION BY run, "group", number
            ORDER BY total DESC, time_ns, node, sequence
        ) = 1
),

built AS (
    SELECT *, greatest(lag_peak - lag_before, 0) AS lag_built
    FROM befores
    JOIN peaks USING (run, "group", number)
),

worked AS (
    SELECT b.run, b.group, b.number, min(t.time_ns) AS worked_off_ns
    FROM built AS b
    JOIN totals AS t
        ON b.run = t.run AND b.group = t.group AND b.number = t.number
    WHERE
        b.lag_built > 0
        AND t.is_commit
        AND t.total <= b.lag_before
        AND (t.time_ns, t.node, t.sequence) >= b.peak_place
    GROUP BY ALL
)

SELECT
    built.run,
    built.group,
    built.number,
    built.started_ns,
    built.ended_ns,
    built.lag_before,
    built.lag_peak,
    built.peak_ns,
    built.lag_built,
    worked.worked_off_ns,
    CASE
        WHEN worked.worked_off_ns IS NOT NULL
            THEN greatest(worked.worked_off_ns - built.ended_ns, 0)
    END AS catch_up_ns
FROM built
LEFT JOIN worked USING (run, "group", number)
