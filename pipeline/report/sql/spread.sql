-- How much runs differ: of each scenario the least, the median and the most of a run.
-- runs: how many there are
-- rebalances_least: of its runs, the least
-- rebalances_p50: the median of its runs
-- rebalances_most: of its runs, the most
-- paused_least_s: member-seconds, of its runs the least
-- paused_p50_s: the median of its runs
-- paused_most_s: of its runs, the most
-- capacity_lost_least: of its runs, the least
-- capacity_lost_p50: the median of its runs
-- capacity_lost_most: of its runs, the most
SELECT
  scenario,
  count(*) AS runs,
  min(rebalances) AS rebalances_least,
  percentile(rebalances, 0.5) AS rebalances_p50,
  max(rebalances) AS rebalances_most,
  min(paused_s) AS paused_least_s,
  percentile(paused_s, 0.5) AS paused_p50_s,
  max(paused_s) AS paused_most_s,
  min(capacity_lost) AS capacity_lost_least,
  percentile(capacity_lost, 0.5) AS capacity_lost_p50,
  max(capacity_lost) AS capacity_lost_most
FROM gold_runs
GROUP BY scenario
ORDER BY capacity_lost_most DESC NULLS LAST, scenario
LIMIT 200
