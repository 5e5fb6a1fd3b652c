-- Time in which partitions that had a reader had none, by group and why, over all runs;
-- at most 500 rows, the longest first.
-- partitions: how many times a partition was without a reader
-- downtime_s: partition-seconds
-- longest_s: the longest of those, up to the next rebalance, in seconds
SELECT
  `group`,
  cause,
  sum(partitions) AS partitions,
  sum(unread_ns) / 1e9 AS downtime_s,
  max(until_ns - from_ns) / 1e9 AS longest_s
FROM silver_unread
WHERE cause <> 'work_ended'
GROUP BY `group`, cause
ORDER BY downtime_s DESC, `group`, cause
LIMIT 500
