-- What has a duration, cut at full hours.
WITH whole AS (
    SELECT
        what, run, "group", from_ns, coalesce(until_ns, last_ns) AS until_ns
    FROM (
        SELECT 'present' AS what, run, "group", from_ns, until_ns
        FROM silver.memberships
        UNION ALL
        SELECT 'stands', run, "group", from_ns, until_ns FROM silver.stand_stills
    )
    JOIN silver.runs USING (run)
),

cut AS (
    SELECT
        *, unnest(range(from_ns // 3600000000000, (until_ns - 1) // 3600000000000 + 1))
            AS hour
    FROM whole
    WHERE until_ns > from_ns
)

SELECT
    what, run, "group", hour,
    sum(
        least(until_ns, (hour + 1) * 3600000000000)
        - greatest(from_ns, hour * 3600000000000)
    )::BIGINT AS ns
FROM cut
GROUP BY ALL
