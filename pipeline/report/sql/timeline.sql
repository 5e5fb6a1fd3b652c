-- Each rebalance of one run, the one that paused longest: of its 12 groups with the
-- most rebalances, at most 3,000, the longest.
-- duration_s: how long it took, in seconds
-- downtime_s: partition-seconds without a reader, but of an Empty group
SELECT
  run, `group`, number, started_ns, duration_ns / 1e9 AS duration_s, outcome, cause,
  culprit_name, size(members) AS members, unread_ns / 1e9 AS downtime_s
FROM silver_rebalances
WHERE run = (
  SELECT run FROM gold_runs ORDER BY paused_s DESC, rebalances DESC, run LIMIT 1
) AND `group` IN (
  SELECT `group` FROM gold_groups
  WHERE run = (
    SELECT run FROM gold_runs ORDER BY paused_s DESC, rebalances DESC, run LIMIT 1
  ) AND rebalances > 0
  ORDER BY rebalances DESC, `group` LIMIT 12
)
ORDER BY duration_ns DESC NULLS FIRST, started_ns
LIMIT 3000
