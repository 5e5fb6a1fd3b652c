-- Moves of partitions by a completed rebalance of consumers.
-- key: run, group, number
--
-- run string: id of the run of the broker
-- group string: group id
-- number bigint: number of the rebalance
-- started_ns bigint: of the rebalance
-- generation int: of the rebalance
-- members bigint: number of members of its generation
-- owned bigint: partitions that it assigned
-- moved bigint: moved_count: partitions that another member owned before
-- least_moved bigint: least_moved_count: minimum that had to move
-- first_owned bigint: first_count: partitions without a known owner before
-- given_up bigint: given_up_count: partitions taken from members and not assigned
SELECT
  run,
  `group`,
  number,
  started_ns,
  generation,
  size(members) AS members,
  kept_count + moved_count + first_count AS owned,
  moved_count AS moved,
  least_moved_count AS least_moved,
  first_count AS first_owned,
  given_up_count AS given_up
FROM accounts
WHERE outcome = 'completed' AND moves IS NOT NULL
