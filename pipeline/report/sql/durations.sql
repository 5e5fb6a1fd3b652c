-- Durations of the completed rebalances of a group, over all runs; the longest
-- first; at most 500. A quantile has a 95 % interval from order statistics: the durations
-- at the ranks n q -/+ 1.96 sqrt(n q (1 - q)) + 0.5, rounded outwards; null: too few.
-- completed: rebalances that ended with an assignment
-- duration_p50_s: from rebalance_started to assignment_made, in seconds, interpolated
-- duration_p50_low_s: the lower bound of the interval of duration_p50_s
-- duration_p50_high_s: the upper bound
-- duration_p95_s: as duration_p50_s
-- duration_p95_low_s: the lower bound of its interval
-- duration_p95_high_s: the upper bound; null: fewer than 92
-- duration_max_s: the longest
-- join_p50_s: of it the join phase, in seconds
-- sync_p50_s: of it the rest: the wait for the leader's assignment, in seconds
SELECT
  `group`,
  count(*) AS completed,
  percentile(duration_ns, 0.5) / 1e9 AS duration_p50_s,
  max(CASE WHEN p50_high <= n AND place = p50_low THEN duration_ns END) / 1e9
    AS duration_p50_low_s,
  max(CASE WHEN p50_low >= 1 AND place = p50_high THEN duration_ns END) / 1e9
    AS duration_p50_high_s,
  percentile(duration_ns, 0.95) / 1e9 AS duration_p95_s,
  max(CASE WHEN p95_high <= n AND place = p95_low THEN duration_ns END) / 1e9
    AS duration_p95_low_s,
  max(CASE WHEN p95_low >= 1 AND place = p95_high THEN duration_ns END) / 1e9
    AS duration_p95_high_s,
  max(duration_ns) / 1e9 AS duration_max_s,
  percentile(join_ns, 0.5) / 1e9 AS join_p50_s,
  percentile(sync_ns, 0.5) / 1e9 AS sync_p50_s
FROM (
  SELECT
    `group`, duration_ns, join_ns, sync_ns, n, place,
    floor(n * 0.5 + 0.5 - 1.96 * sqrt(n * 0.25)) AS p50_low,
    ceil(n * 0.5 + 0.5 + 1.96 * sqrt(n * 0.25)) AS p50_high,
    floor(n * 0.95 + 0.5 - 1.96 * sqrt(n * 0.0475)) AS p95_low,
    ceil(n * 0.95 + 0.5 + 1.96 * sqrt(n * 0.0475)) AS p95_high
  FROM (
    SELECT
      `group`, duration_ns, join_ns, sync_ns,
      count(*) OVER (PARTITION BY `group`) AS n,
      row_number() OVER (PARTITION BY `group` ORDER BY duration_ns) AS place
    FROM silver_rebalances
    WHERE outcome = 'completed' AND duration_ns IS NOT NULL
  )
)
GROUP BY `group`
ORDER BY duration_max_s DESC, `group`
LIMIT 500
