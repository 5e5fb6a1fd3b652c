WITH labelled AS (
    SELECT
        run, scenario, seed,
        try_cast(labels['group.initial.rebalance.delay.ms'] AS BIGINT) AS delay_ms,
        list_sort(
            list_filter(
                map_entries(labels),
                lambda e: e.key <> 'group.initial.rebalance.delay.ms'
            )
        ) AS others
    FROM silver.runs
    WHERE scenario IS NOT NULL AND seed IS NOT NULL
),

first_seen AS (
    SELECT run, "group", min(from_ns) AS from_ns
    FROM silver.memberships
    GROUP BY ALL
),

first_done AS (
    SELECT run, "group", min(ended_ns) AS ended_ns
    FROM silver.rebalances
    WHERE outcome = 'completed'
    GROUP BY ALL
),

took AS (
    SELECT
        g.run, g.group, g.rebalances, g.stand_still_s,
        (first_done.ended_ns - first_seen.from_ns) / 1e9 AS first_assignment_s
    FROM gold.groups AS g
    LEFT JOIN first_seen USING (run, "group")
    LEFT JOIN first_done USING (run, "group")
)

SELECT
    a.scenario,
    a.seed,
    x.group,
    a.delay_ms,
    a.run AS run_with,
    b.run AS run_without,
    x.rebalances AS rebalances_with,
    y.rebalances AS rebalances_without,
    y.rebalances - x.rebalances AS rebalances_saved,
    x.stand_still_s AS stand_still_with_s,
    y.stand_still_s AS stand_still_without_s,
    y.stand_still_s - x.stand_still_s AS stand_still_saved_s,
    x.first_assignment_s AS first_assignment_with_s,
    y.first_assignment_s AS first_assignment_without_s,
    x.first_assignment_s - y.first_assignment_s AS later_s
FROM labelled AS a
JOIN labelled AS b ON a.others = b.others AND a.delay_ms > 0 AND b.delay_ms = 0
JOIN took AS x ON a.run = x.run
JOIN took AS y ON b.run = y.run AND x.group = y.group
