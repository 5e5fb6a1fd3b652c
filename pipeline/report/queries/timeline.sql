-- Each rebalance of one run, the one that stood still longest: of its 12 groups with the
-- most rebalances, at most 3,000, the longest.
-- duration_s: how long it took, in seconds; null: open
-- outcome: completed, emptied, interrupted, moved or open
SELECT
  run, `group`, number, started_ns, duration_ns / 1e9 AS duration_s, outcome, cause,
  culprit_name, size(members) AS members
FROM silver_rebalances
WHERE run = (
  SELECT run FROM gold_runs ORDER BY stand_still_s DESC, rebalances DESC, run LIMIT 1
) AND `group` IN (
  SELECT `group` FROM gold_groups
  WHERE run = (
    SELECT run FROM gold_runs ORDER BY stand_still_s DESC, rebalances DESC, run LIMIT 1
  ) AND rebalances > 0
  ORDER BY rebalances DESC, `group` LIMIT 12
)
ORDER BY duration_ns DESC NULLS FIRST, started_ns
LIMIT 3000
