-- The members that made a group rebalance.
-- key: run, group, cause, name
--
-- run string: id of the run of the broker
-- group string: group id
-- cause string: cause of the rebalances
-- name string: culprit_name of the rebalances
-- rebalances bigint: number of rebalances
-- duration_s double: total duration of those that have ended; 0: none
-- downtime_s double: partition-seconds, as in causes
-- paused_s double: member-seconds, as in causes
-- Without a culprit the name is null, so that the rows add up.
SELECT
  run,
  `group`,
  cause,
  culprit_name AS name,
  count(*) AS rebalances,
  sum(coalesce(duration_ns, 0)) / 1e9 AS duration_s,
  sum(unread_ns) / 1e9 AS downtime_s,
  sum(paused_ns) / 1e9 AS paused_s
FROM silver_rebalances
GROUP BY run, `group`, cause, culprit_name
