-- Why groups rebalanced, over all runs and hours; at most 1,000 rows, those that paused
-- longest.
-- duration_p95_s: of the hour with the largest: completed ones, in seconds
SELECT
  `group`,
  cause,
  sum(rebalances) AS rebalances,
  sum(completed) AS completed,
  sum(paused_s) AS paused_s,
  sum(unread_s) AS unread_s,
  max(duration_p95_s) AS duration_p95_s
FROM gold_causes
GROUP BY `group`, cause
ORDER BY paused_s DESC, rebalances DESC, `group`, cause
LIMIT 1000
