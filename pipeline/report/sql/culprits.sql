-- Members that caused rebalances, over all runs; at most 1,000 rows, those with the most
-- downtime first.
SELECT
  `group`,
  cause,
  name,
  sum(rebalances) AS rebalances,
  sum(duration_s) AS duration_s,
  sum(paused_s) AS paused_s,
  sum(downtime_s) AS downtime_s
FROM gold_culprits
GROUP BY `group`, cause, name
ORDER BY downtime_s DESC NULLS LAST, rebalances DESC, `group`, cause, name
LIMIT 1000
