-- Refused joins, and members removed because the group was full, by group and cause,
-- over all runs; at most 500 rows.
-- refusals: their number
-- names: different names
-- first_ns: the first of them
-- last_ns: the last of them
SELECT
  `group`,
  kind,
  cause,
  count(*) AS refusals,
  count(DISTINCT name) AS names,
  min(time_ns) AS first_ns,
  max(time_ns) AS last_ns
FROM silver_refusals
GROUP BY `group`, kind, cause
ORDER BY refusals DESC, `group`, kind, cause
LIMIT 500
