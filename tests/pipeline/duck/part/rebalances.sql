SELECT
    r.run, r.group, r.started_ns // 3600000000000 AS hour, r.number, r.outcome, r.cause,
    r.culprit_name, r.duration_ns,
    CASE WHEN r.outcome = 'completed' THEN r.duration_ns END AS completed_ns,
    CASE WHEN r.outcome = 'completed' THEN len(r.members) END AS members,
    CASE WHEN r.outcome = 'completed' THEN r.metadata_bytes END AS metadata_bytes,
    CASE WHEN r.outcome = 'completed' THEN r.assignment_bytes END AS assignment_bytes,
    coalesce(s.ns, 0) AS stood_ns
FROM silver.rebalances AS r
LEFT JOIN (
    SELECT s.run, s.group, s.number, sum(coalesce(until_ns, last_ns) - from_ns) AS ns
    FROM silver.stand_stills AS s
    JOIN silver.runs USING (run)
    GROUP BY ALL
) AS s
    ON r.run = s.run AND r.group = s.group AND r.number = s.number
