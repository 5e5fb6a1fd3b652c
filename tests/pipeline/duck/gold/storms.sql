WITH ahead AS (
    SELECT
        run, "group", number,
        lead(started_ns, $storm_rebalances - 1) OVER onward - started_ns
        <= round($storm_seconds::DOUBLE * 1e9) AS is_stretch
    FROM silver.rebalances
    WINDOW onward AS (PARTITION BY run, "group" ORDER BY number)
),

-- A stretch that begins in one before it has a rebalance in common with it.
chained AS (
    SELECT
        *,
        coalesce(
            number - lag(number) OVER (PARTITION BY run, "group" ORDER BY number)
            >= $storm_rebalances,
            true
        ) AS is_first
    FROM ahead
    WHERE is_stretch
),

storms AS (
    SELECT
        run, "group", min(number) AS first_number,
        max(number) + $storm_rebalances - 1 AS last_number
    FROM (
        SELECT
            *,
            count(CASE WHEN is_first THEN 1 END) OVER (
                PARTITION BY run, "group" ORDER BY number ROWS UNBOUNDED PRECEDING
            ) AS storm
        FROM chained
    )
    GROUP BY run, "group", storm
),

in_them AS (
    SELECT s.run, s.group, s.first_number, s.last_number, r.number, r.started_ns,
        r.cause, r.culprit_name
    FROM storms AS s
    JOIN silver.rebalances AS r
        ON
            s.run = r.run
            AND s.group = r.group
            AND r.number BETWEEN s.first_number AND s.last_number
),

causes AS (
    SELECT run, "group", first_number, map_from_entries(list((cause, n))) AS by_cause
    FROM (
        SELECT run, "group", first_number, cause, count(*) AS n
        FROM in_them
        GROUP BY ALL
    )
    GROUP BY ALL
),

names AS (
    SELECT run, "group", first_number, list(culprit_name ORDER BY first_seen) AS names
    FROM (
        SELECT run, "group", first_number, culprit_name, min(number) AS first_seen
        FROM in_them
        WHERE culprit_name IS NOT NULL
        GROUP BY ALL
    )
    GROUP BY ALL
)

SELECT
    i.run,
    i.group,
    min(i.started_ns) AS from_ns,
    max(i.started_ns) AS until_ns,
    i.first_number,
    any_value(i.last_number) AS last_number,
    count(*) AS rebalances,
    any_value(causes.by_cause) AS by_cause,
    coalesce(any_value(names.names), []) AS names
FROM in_them AS i
LEFT JOIN causes USING (run, "group", first_number)
LEFT JOIN names USING (run, "group", first_number)
GROUP BY i.run, i.group, i.first_number
