SELECT
    run,
    "group",
    cause,
    culprit_name AS name,
    count(*) AS rebalances,
    coalesce(sum(duration_ns), 0) / 1e9 AS duration_s,
    sum(stood_ns) / 1e9 AS stand_still_s
FROM part.rebalances
GROUP BY run, "group", cause, culprit_name
