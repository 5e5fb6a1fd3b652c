-- Records that were processed twice, as far as commits show it (a lower bound), by group
-- and why, over all runs; at most 500 rows.
-- why: refused: a commit was refused, and another member processed its records again;
--   rewound: a commit of a lower offset than before
-- times: how often a partition was set back
-- partitions: number of partitions
-- first_ns: the first time
-- last_ns: the last time
SELECT
  `group`,
  why,
  sum(records) AS records,
  count(*) AS times,
  count(DISTINCT topic, partition) AS partitions,
  min(time_ns) AS first_ns,
  max(time_ns) AS last_ns
FROM silver_reprocessed
GROUP BY `group`, why
ORDER BY records DESC, `group`, why
LIMIT 500
