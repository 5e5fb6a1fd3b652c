-- Causes of rebalances, over all runs and hours; at most 1,000 rows, those with the
-- most downtime first.
-- duration_p95_s: of the hour with the largest: completed ones, in seconds
SELECT
  `group`,
  cause,
  sum(rebalances) AS rebalances,
  sum(completed) AS completed,
  sum(paused_s) AS paused_s,
  sum(downtime_s) AS downtime_s,
  max(duration_p95_s) AS duration_p95_s
FROM gold_causes
GROUP BY `group`, cause
ORDER BY downtime_s DESC NULLS LAST, rebalances DESC, `group`, cause
LIMIT 1000
