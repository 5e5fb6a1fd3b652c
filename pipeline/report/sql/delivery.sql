-- Records that were sent again or skipped, and commits that went back, by group and
-- reason, over all runs; at most 500 rows.
-- times: number of ranges of records, or of commits
-- partitions: number of partitions
-- first_ns: the first time
-- last_ns: the last time
SELECT
  `group`,
  what,
  reason,
  sum(records) AS records,
  count(*) AS times,
  count(DISTINCT topic, partition) AS partitions,
  min(time_ns) AS first_ns,
  max(time_ns) AS last_ns
FROM silver_delivery
GROUP BY `group`, what, reason
ORDER BY records DESC NULLS LAST, times DESC, `group`, what, reason
LIMIT 500
