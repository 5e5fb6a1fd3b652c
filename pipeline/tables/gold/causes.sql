-- Rebalances of a group in an hour, by cause.
-- key: run, group, hour, cause
--
-- run string: id of the run of the broker
-- group string: group id
-- hour timestamp: hour in which they started
-- cause string: cause of the rebalances
-- rebalances bigint: number of rebalances
-- completed bigint: of these, those that ended with an assignment
-- duration_p50_s double: for the completed ones, as in hours
-- duration_p95_s double: likewise
-- duration_p99_s double: likewise
-- downtime_s double: partition-seconds: sum of unread_ns
-- paused_s double: member-seconds: sum of paused_ns
WITH sums AS (
  SELECT
    run,
    `group`,
    timestamp_seconds((started_ns - pmod(started_ns, 3600000000000)) div 1000000000) AS hour,
    cause,
    count(*) AS rebalances,
    count_if(outcome = 'completed') AS completed,
    percentile(
      CASE WHEN outcome = 'completed' THEN duration_ns END, array(0.5, 0.95, 0.99)
    ) AS of,
    sum(unread_ns) AS unread_ns,
    sum(paused_ns) AS paused_ns
  FROM silver_rebalances
  GROUP BY
    run,
    `group`,
    timestamp_seconds((started_ns - pmod(started_ns, 3600000000000)) div 1000000000),
    cause
)
SELECT
  *,
  -- Of whole numbers, a percentile has two decimals: the rest depends on the engine.
  round(of[0], 2) / 1e9 AS duration_p50_s,
  round(of[1], 2) / 1e9 AS duration_p95_s,
  round(of[2], 2) / 1e9 AS duration_p99_s,
  unread_ns / 1e9 AS downtime_s,
  paused_ns / 1e9 AS paused_s
FROM sums
