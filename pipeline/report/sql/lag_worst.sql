-- The 100 rebalances that built up the most lag.
-- catch_up_s: seconds from its end until the lag was worked off; null: unknown
-- duration_s: how long it took, in seconds
-- cause: of the rebalance
SELECT
  l.run, l.`group`, l.number, l.started_ns, r.cause, r.culprit_name,
  r.duration_ns / 1e9 AS duration_s, l.lag_before, l.lag_peak, l.lag_built,
  l.catch_up_ns / 1e9 AS catch_up_s
FROM silver_lags AS l
JOIN silver_rebalances AS r
  ON r.run = l.run AND r.`group` = l.`group` AND r.number = l.number
WHERE l.lag_built > 0
ORDER BY l.lag_built DESC, l.started_ns, l.`group`
LIMIT 100
