-- Events by kind, and the offsets in them.
SELECT
    run, "group", time_ns // 3600000000000 AS hour, kind, error,
    count(*) AS events, coalesce(sum(len(offsets)), 0)::BIGINT AS offsets
FROM events
WHERE "group" IS NOT NULL
GROUP BY ALL
