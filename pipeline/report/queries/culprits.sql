-- Who made groups rebalance, over all runs; at most 1,000 rows, those with the most.
SELECT
  `group`,
  cause,
  name,
  sum(rebalances) AS rebalances,
  sum(duration_s) AS duration_s,
  sum(stand_still_s) AS stand_still_s
FROM gold_culprits
GROUP BY `group`, cause, name
ORDER BY rebalances DESC, stand_still_s DESC, `group`, cause, name
LIMIT 1000
