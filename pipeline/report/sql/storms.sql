-- Storms, those with the most rebalances first; at most 500.
-- lasted_s: from the start of its first rebalance to the start of its last, in seconds
SELECT
  run, `group`, from_ns, (until_ns - from_ns) / 1e9 AS lasted_s, rebalances, by_cause,
  names
FROM gold_storms
ORDER BY rebalances DESC, from_ns, `group`
LIMIT 500
