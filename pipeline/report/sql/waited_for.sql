-- Members that join phases waited for last, over all runs; at most 1,000 rows.
SELECT
  `group`,
  name,
  sum(rebalances) AS rebalances,
  sum(waited_s) AS waited_s,
  max(waited_max_s) AS waited_max_s
FROM gold_waited_for
GROUP BY `group`, name
ORDER BY waited_s DESC, `group`, name
LIMIT 1000
