-- {by}: the columns that a row is for; {spine}: which rows there are.
WITH spine AS ({spine}),

rebalances AS (
    SELECT
        {by},
        count(*) AS rebalances,
        count(*) FILTER (outcome = 'completed') AS completed,
        count(*) FILTER (outcome = 'interrupted') AS interrupted,
        quantile_cont(completed_ns, 0.5) / 1e9 AS duration_p50_s,
        quantile_cont(completed_ns, 0.95) / 1e9 AS duration_p95_s,
        quantile_cont(completed_ns, 0.99) / 1e9 AS duration_p99_s,
        max(completed_ns) / 1e9 AS duration_max_s,
        max(members) AS members_most,
        sum(metadata_bytes) AS metadata_bytes,
        sum(assignment_bytes) AS assignment_bytes
    FROM part.rebalances
    GROUP BY ALL
),

causes AS (
    SELECT {by}, map_from_entries(list((cause, n))) AS by_cause
    FROM (SELECT {by}, cause, count(*) AS n FROM part.rebalances GROUP BY ALL)
    GROUP BY ALL
),

spans AS (
    SELECT
        {by},
        sum(ns) FILTER (what = 'stands') AS stands_ns,
        sum(ns) FILTER (what = 'present') AS present_ns
    FROM part.spans
    GROUP BY ALL
),

storms AS (
    SELECT {by}, count(*) AS storms, sum(rebalances) AS storm_rebalances
    FROM (SELECT *, from_ns // 3600000000000 AS hour FROM gold.storms)
    GROUP BY ALL
),

refusals AS (
    SELECT
        {by}, count(*) AS refused_full, count(DISTINCT name) AS refused_full_names
    FROM (SELECT *, time_ns // 3600000000000 AS hour FROM silver.refusals)
    WHERE cause IN ('full', 'group_over_max_size')
    GROUP BY ALL
),

moves AS (
    SELECT {by}, sum(moved) AS moved, sum(least_moved) AS least_moved
    FROM (SELECT *, started_ns // 3600000000000 AS hour FROM silver.moves)
    GROUP BY ALL
),

crashes AS (
    SELECT {by}, count(*) AS crashes
    FROM (SELECT *, until_ns // 3600000000000 AS hour FROM silver.memberships)
    WHERE how = 'expired'
    GROUP BY ALL
),

idle AS (
    SELECT {by}, sum(crash_idle_ns) AS idle_ns, max(crash_idle_ns) AS longest_ns
    FROM (SELECT *, from_ns // 3600000000000 AS hour FROM silver.ownership)
    WHERE crash_idle_ns IS NOT NULL
    GROUP BY ALL
),

commits AS (
    SELECT
        {by},
        sum(events) FILTER (kind = 'offsets_committed') AS commits,
        sum(offsets) FILTER (kind = 'offsets_committed') AS offsets,
        sum(events) FILTER (kind = 'commit_refused') AS failures
    FROM part.counted
    GROUP BY ALL
),

errors AS (
    SELECT {by}, map_from_entries(list((error, n))) AS by_error
    FROM (
        SELECT {by}, error, sum(events)::BIGINT AS n
        FROM part.counted
        WHERE kind = 'commit_refused' AND error IS NOT NULL
        GROUP BY ALL
    )
    GROUP BY ALL
),

reprocessed AS (
    SELECT
        {by},
        sum(records) FILTER (why = 'refused') AS refused,
        sum(records) FILTER (why = 'rewound') AS rewound
    FROM (SELECT *, time_ns // 3600000000000 AS hour FROM silver.reprocessed)
    GROUP BY ALL
),

lags AS (
    SELECT
        {by},
        sum(lag_built) AS lag_built,
        max(lag_built) AS lag_built_max,
        quantile_cont(catch_up_ns, 0.5) / 1e9 AS catch_up_p50_s,
        max(catch_up_ns) / 1e9 AS catch_up_max_s
    FROM (SELECT *, started_ns // 3600000000000 AS hour FROM silver.lags)
    GROUP BY ALL
)

SELECT
    spine.*,
    coalesce(rebalances, 0) AS rebalances,
    coalesce(completed, 0) AS completed,
    coalesce(interrupted, 0) AS interrupted,
    by_cause,
    duration_p50_s,
    duration_p95_s,
    duration_p99_s,
    duration_max_s,
    coalesce(stands_ns, 0) / 1e9 AS stand_still_s,
    coalesce(present_ns, 0) / 1e9 AS member_s,
    CASE WHEN present_ns > 0 THEN coalesce(stands_ns, 0) / present_ns END
        AS capacity_lost,
    coalesce(members_most, 0) AS members_most,
    coalesce(storms, 0) AS storms,
    coalesce(storm_rebalances, 0) AS storm_rebalances,
    coalesce(refused_full, 0) AS refused_full,
    coalesce(refused_full_names, 0) AS refused_full_names,
    coalesce(moved, 0) AS partitions_moved,
    coalesce(least_moved, 0) AS partitions_moved_least,
    coalesce(crashes, 0) AS crashes,
    coalesce(idle_ns, 0) / 1e9 AS crash_idle_s,
    longest_ns / 1e9 AS crash_idle_max_s,
    coalesce(metadata_bytes, 0) AS metadata_bytes,
    coalesce(assignment_bytes, 0) AS assignment_bytes,
    CASE
        WHEN completed > 0
            THEN
                (coalesce(metadata_bytes, 0) + coalesce(assignment_bytes, 0)) / completed
    END AS bytes_per_rebalance,
    coalesce(commits, 0) AS commits,
    coalesce(offsets, 0) AS offsets,
    coalesce(failures, 0) AS commit_failures,
    by_error AS commit_failures_by_error,
    coalesce(refused, 0) AS records_reprocessed,
    coalesce(rewound, 0) AS records_rewound,
    coalesce(lag_built, 0) AS lag_built,
    lag_built_max,
    catch_up_p50_s,
    catch_up_max_s
FROM spine
LEFT JOIN rebalances USING ({by})
LEFT JOIN causes USING ({by})
LEFT JOIN spans USING ({by})
LEFT JOIN storms USING ({by})
LEFT JOIN refusals USING ({by})
LEFT JOIN moves USING ({by})
LEFT JOIN crashes USING ({by})
LEFT JOIN idle USING ({by})
LEFT JOIN commits USING ({by})
LEFT JOIN errors USING ({by})
LEFT JOIN reprocessed USING ({by})
LEFT JOIN lags USING ({by})
