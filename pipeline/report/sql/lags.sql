-- The lag that completed rebalances of a group built up, and how long it took to work it
-- off, as commits show it; over all runs; at most 500.
-- rebalances: rebalances with known lag
-- grown: those in which lag grew
-- worked_off: those after which it was back at lag_before before the next rebalance
-- lag_before_p50: records: the median lag before a rebalance
-- lag_built_p50: records: the median growth in those in which it grew
-- lag_built_max: records: the largest growth
-- catch_up_p50_s: seconds from its end until it was worked off: the median
-- catch_up_max_s: the longest of those
SELECT
  `group`,
  count(*) AS rebalances,
  count_if(lag_built > 0) AS grown,
  count(worked_off_ns) AS worked_off,
  percentile(lag_before, 0.5) AS lag_before_p50,
  percentile(lag_built, 0.5) FILTER (WHERE lag_built > 0) AS lag_built_p50,
  max(lag_built) FILTER (WHERE lag_built > 0) AS lag_built_max,
  percentile(catch_up_ns, 0.5) / 1e9 AS catch_up_p50_s,
  max(catch_up_ns) / 1e9 AS catch_up_max_s
FROM silver_lags
GROUP BY `group`
ORDER BY lag_built_max DESC NULLS LAST, `group`
LIMIT 500
