-- Savings by the initial delay (KIP-134), in pairs of runs that differ in it alone; at
-- most 500 rows.
-- pairs: pairs of runs
-- rebalances_saved_p50: the median of the pairs: rebalances without - with
-- downtime_saved_p50_s: partition-seconds, the median of the pairs: without - with
-- later_p50_s: seconds that the first assignment came later with it, the median
-- later_max_s: the same, the longest
SELECT
  scenario,
  `group`,
  delay_ms,
  count(*) AS pairs,
  percentile(rebalances_saved, 0.5) AS rebalances_saved_p50,
  percentile(downtime_saved_s, 0.5) AS downtime_saved_p50_s,
  percentile(later_s, 0.5) AS later_p50_s,
  max(later_s) AS later_max_s
FROM gold_initial_delay
GROUP BY scenario, `group`, delay_ms
ORDER BY scenario, `group`, delay_ms
LIMIT 500
