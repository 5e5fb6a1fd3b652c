-- Who was refused, by name, as a group was full (KIP-389), over all runs; at most 500.
-- refusals: how many
-- first_ns: the first of them
-- last_ns: the last of them
SELECT
  `group`, name, count(*) AS refusals, min(time_ns) AS first_ns, max(time_ns) AS last_ns
FROM silver_refusals
WHERE cause IN ('full', 'group_over_max_size')
GROUP BY `group`, name
ORDER BY refusals DESC, `group`, name
LIMIT 500
