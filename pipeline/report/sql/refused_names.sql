-- Refused processes of full groups (KIP-389), by name, over all runs; at most 500.
-- refusals: their number
-- first_ns: the first of them
-- last_ns: the last of them
SELECT
  `group`, name, count(*) AS refusals, min(time_ns) AS first_ns, max(time_ns) AS last_ns
FROM silver_refusals
WHERE cause IN ('full', 'group_over_max_size')
GROUP BY `group`, name
ORDER BY refusals DESC, `group`, name
LIMIT 500
