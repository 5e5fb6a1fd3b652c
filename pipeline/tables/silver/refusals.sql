-- A refused JoinGroup (member_refused), or a member removed because the group was too
-- large (member_kicked with the cause full or group_over_max_size).
-- key: run, node, sequence
--
-- run string: id of the run of the broker
-- group string: group id
-- time_ns bigint: of the event
-- node int: of the event
-- sequence bigint: of the event
-- kind string: member_refused or member_kicked
-- member_id string: the member; null: without an id
-- name string: instance_id of the event, or else client_id or member_id
-- host string: of the event
-- cause string: of the event
-- error string: of the event
SELECT *, coalesce(instance_id, client_id, member_id) AS name
FROM bronze_events
WHERE
  `group` IS NOT NULL
  AND (
    kind = 'member_refused'
    OR (kind = 'member_kicked' AND cause IN ('full', 'group_over_max_size'))
  )
