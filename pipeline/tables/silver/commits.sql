-- An offset of an OffsetCommit, accepted or refused.
-- key: run, node, sequence, topic, partition
--
-- run string: id of the run of the broker
-- group string: group id
-- member_id string: the member that committed; null: not a member, for example an admin
-- name string: instance_id of the event, or else client_id or member_id
-- client_id string: of the event
-- host string: of the event
-- connection bigint: of the event
-- generation int: of the event
-- time_ns bigint: of the event
-- node int: of the event
-- sequence bigint: of the event
-- is_first boolean: true for the first offset of its event
-- topic string: the partition's topic
-- partition int: its number
-- offset bigint: offset of the next record to consume
-- end_offset bigint: log end offset at that time; null: unknown
-- error string: error of a refused commit; null: accepted
WITH committed AS (
  SELECT
    run,
    `group`,
    member_id,
    coalesce(instance_id, client_id, member_id) AS name,
    client_id,
    host,
    connection,
    generation,
    time_ns,
    node,
    sequence,
    error,
    posexplode(offsets) AS (position, row)
  FROM bronze_events
  WHERE kind IN ('offsets_committed', 'commit_refused') AND `group` IS NOT NULL
)
SELECT *, position = 0 AS is_first, row.* FROM committed
