-- The runs, and the metrics by which they are compared; at most 10,000.
-- time_to_stable_s: seconds from the first member of a group to its first assignment
--   that no rebalance follows within 10 s: of the run's groups, the longest; null: a
--   group has no such assignment
-- findings: known problems that the broker found in it
SELECT
  r.run, r.labels, r.first_ns, r.last_ns, r.events, r.downtime_s, r.downtime_share,
  r.rebalances, s.time_to_stable_s, r.paused_s, r.again_certain, r.again_possible,
  r.skipped, r.went_back, r.uncommitted, r.expired, r.commit_failures,
  coalesce(f.findings, 0) AS findings
FROM gold_runs AS r
LEFT JOIN (
  SELECT run, sum(findings) AS findings
  FROM gold_findings
  GROUP BY run
) AS f ON f.run = r.run
LEFT JOIN (
  SELECT
    c.run,
    CASE WHEN count(a.stable_ns) = count(*) THEN max(a.stable_ns - c.came_ns) / 1e9 END
      AS time_to_stable_s
  FROM (
    SELECT run, `group`, min(from_ns) AS came_ns
    FROM silver_memberships
    GROUP BY run, `group`
  ) AS c
  LEFT JOIN (
    SELECT run, `group`, min(ended_ns) AS stable_ns
    FROM (
      SELECT
        run, `group`, outcome, ended_ns,
        lead(started_ns) OVER (PARTITION BY run, `group` ORDER BY number) AS next_ns
      FROM silver_rebalances
    )
    WHERE outcome = 'completed'
      AND (next_ns IS NULL OR next_ns > ended_ns + 10000000000)
    GROUP BY run, `group`
  ) AS a ON a.run = c.run AND a.`group` = c.`group`
  GROUP BY c.run
) AS s ON s.run = r.run
ORDER BY r.run
LIMIT 10000
