SELECT
    r.run,
    r.group,
    coalesce(m.name, r.waited_for) AS name,
    count(*) AS rebalances,
    sum(r.waited_ns) / 1e9 AS waited_s,
    max(r.waited_ns) / 1e9 AS waited_max_s
FROM silver.rebalances AS r
LEFT JOIN silver.memberships AS m
    ON r.run = m.run AND r.group = m.group AND r.waited_for = m.member_id
WHERE r.waited_for IS NOT NULL
GROUP BY r.run, r.group, coalesce(m.name, r.waited_for)
