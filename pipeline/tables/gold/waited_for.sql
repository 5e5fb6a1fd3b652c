-- A member that a group waited for: it was the last one in join phases, or took longest
-- to give up partitions in a consumer group.
-- key: run, group, name
--
-- run string: id of the run of the broker
-- group string: group id
-- name string: name in the membership of waited_for of rebalances; without one, the
--   member id
-- rebalances bigint: number of rebalances
-- waited_s double: sum of waited_ns
-- waited_max_s double: longest waited_ns
-- The id stands for a member whose membership was not seen.
SELECT
  r.run,
  r.`group`,
  coalesce(m.name, r.waited_for) AS name,
  count(*) AS rebalances,
  sum(r.waited_ns) / 1e9 AS waited_s,
  max(r.waited_ns) / 1e9 AS waited_max_s
FROM silver_rebalances AS r
LEFT JOIN silver_memberships AS m
  ON r.run = m.run AND r.`group` = m.`group` AND r.waited_for = m.member_id
WHERE r.waited_for IS NOT NULL
GROUP BY r.run, r.`group`, coalesce(m.name, r.waited_for)
