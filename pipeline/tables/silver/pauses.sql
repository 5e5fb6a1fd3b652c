-- The pause of an eager member with partitions, from its JoinGroup to its assignment: a
-- row of pauses of a rebalance_account whose count is not 0. A pause that continues in
-- the next rebalance has a row there, too.
-- key: run, group, number, member_id, from_ns
--
-- run string: id of the run of the broker
-- group string: group id
-- number bigint: number of the rebalance
-- member_id string: member id
-- owner string: see Terms
-- name string: see Terms
-- from_ns bigint: its start
-- until_ns bigint: its end
-- partitions bigint: number of its partitions; null: unknown
-- ended string: {pause_ends}
WITH pause AS (
  SELECT run, `group`, number, explode(pauses) AS row FROM accounts
),
r AS (
  SELECT
    run,
    `group`,
    number,
    row.member_id,
    row.since_ns AS from_ns,
    row.until_ns,
    row.count AS partitions,
    row.ended_by AS ended
  FROM pause
  -- Of an eager member that had partitions.
  WHERE coalesce(row.count, 1) > 0
)
SELECT
  r.*,
  coalesce(m.owner, r.member_id) AS owner,
  coalesce(m.name, r.member_id) AS name
FROM r
LEFT JOIN silver_memberships AS m
  ON r.run = m.run AND r.`group` = m.`group` AND r.member_id = m.member_id
