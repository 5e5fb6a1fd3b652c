-- How much runs differ: of each scenario the least, the median and the most of a run.
-- runs: their number
-- rebalances_least: of its runs, the least
-- rebalances_p50: the median of its runs
-- rebalances_most: of its runs, the most
-- paused_least_s: member-seconds, of its runs the least
-- paused_p50_s: the median of its runs
-- paused_most_s: of its runs, the most
-- downtime_share_least: of its runs, the least
-- downtime_share_p50: the median of its runs
-- downtime_share_most: of its runs, the most
SELECT
  scenario,
  count(*) AS runs,
  min(rebalances) AS rebalances_least,
  percentile(rebalances, 0.5) AS rebalances_p50,
  max(rebalances) AS rebalances_most,
  min(paused_s) AS paused_least_s,
  percentile(paused_s, 0.5) AS paused_p50_s,
  max(paused_s) AS paused_most_s,
  min(downtime_share) AS downtime_share_least,
  percentile(downtime_share, 0.5) AS downtime_share_p50,
  max(downtime_share) AS downtime_share_most
FROM gold_runs
GROUP BY scenario
ORDER BY downtime_share_most DESC NULLS LAST, scenario
LIMIT 200
