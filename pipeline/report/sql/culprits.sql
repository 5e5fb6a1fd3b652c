-- Culprits of rebalances, over all runs; at most 1,000 rows, those with the most.
SELECT
  `group`,
  cause,
  name,
  sum(rebalances) AS rebalances,
  sum(duration_s) AS duration_s,
  sum(paused_s) AS paused_s,
  sum(unread_s) AS unread_s
FROM gold_culprits
GROUP BY `group`, cause, name
ORDER BY rebalances DESC, paused_s DESC, `group`, cause, name
LIMIT 1000
