SELECT
    run,
    "group",
    hour,
    cause,
    count(*) AS rebalances,
    count(completed_ns) AS completed,
    quantile_cont(completed_ns, 0.5) / 1e9 AS duration_p50_s,
    quantile_cont(completed_ns, 0.95) / 1e9 AS duration_p95_s,
    quantile_cont(completed_ns, 0.99) / 1e9 AS duration_p99_s,
    sum(stood_ns) / 1e9 AS stand_still_s
FROM part.rebalances
GROUP BY run, "group", hour, cause
