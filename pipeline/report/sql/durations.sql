-- Durations of the completed rebalances of a group, over all runs; those with the
-- longest first; at most 500.
-- completed: how many ended with an assignment
-- duration_p50_s: from rebalance_started to assignment_made, in seconds, interpolated
-- duration_p95_s: the same
-- duration_p99_s: the same
-- duration_max_s: the same
-- join_p50_s: of it the join phase, in seconds
-- sync_p50_s: of it the rest: the wait for the leader's assignment, in seconds
SELECT
  `group`,
  count(*) AS completed,
  percentile(duration_ns, 0.5) / 1e9 AS duration_p50_s,
  percentile(duration_ns, 0.95) / 1e9 AS duration_p95_s,
  percentile(duration_ns, 0.99) / 1e9 AS duration_p99_s,
  max(duration_ns) / 1e9 AS duration_max_s,
  percentile(join_ns, 0.5) / 1e9 AS join_p50_s,
  percentile(sync_ns, 0.5) / 1e9 AS sync_p50_s
FROM silver_rebalances
WHERE outcome = 'completed'
GROUP BY `group`
ORDER BY duration_max_s DESC, `group`
LIMIT 500
