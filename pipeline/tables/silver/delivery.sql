-- Records that a group was sent again, or skipped: a row of again or skips of a
-- delivery_account. Or a commit below the committed offset: a row of offsets_went_back.
-- See the events for the full meaning.
-- key: run, group, node, sequence, what, position
--
-- run string: id of the run of the broker
-- group string: group id
-- time_ns bigint: of the event
-- node int: of the event
-- sequence bigint: of the event
-- position int: the row's place in its list, from 0
-- topic string: the partition's topic
-- partition int: its number
-- what string: again_certain (handled before), again_possible (received before, not
--   committed), skipped, or went_back
-- first bigint: offset of the first record; went_back: the committed offset
-- end bigint: offset behind the last record; went_back: the offset before
-- records bigint: their number; null: went_back
-- reason string: reason_again, reason_skipped, or cause
-- member_id string: member id
-- owner string: see Terms
-- name string: see Terms
-- previous_id string: the member that received them first; null: unknown, or not again
WITH again AS (
  SELECT
    run, `group`, time_ns, node, sequence, client_id, posexplode(again) AS (position, row)
  FROM bronze_events
  WHERE kind = 'delivery_account' AND `group` IS NOT NULL
),
skips AS (
  SELECT
    run, `group`, time_ns, node, sequence, client_id, posexplode(skips) AS (position, row)
  FROM bronze_events
  WHERE kind = 'delivery_account' AND `group` IS NOT NULL
),
rewinds AS (
  SELECT
    run,
    `group`,
    time_ns,
    node,
    sequence,
    client_id,
    member_id,
    cause,
    posexplode(rewinds) AS (position, row)
  FROM bronze_events
  WHERE kind = 'offsets_went_back' AND `group` IS NOT NULL
),
r AS (
  SELECT
    run,
    `group`,
    time_ns,
    node,
    sequence,
    client_id,
    position,
    row.topic,
    row.`partition`,
    CASE WHEN row.is_certain THEN 'again_certain' ELSE 'again_possible' END AS what,
    row.first,
    row.end,
    row.records,
    row.reason_again AS reason,
    row.reader AS member_id,
    row.previous_reader AS previous_id
  FROM again
  UNION ALL
  SELECT
    run,
    `group`,
    time_ns,
    node,
    sequence,
    client_id,
    position,
    row.topic,
    row.`partition`,
    'skipped' AS what,
    row.first,
    row.end,
    row.records,
    row.reason_skipped AS reason,
    row.reader AS member_id,
    CAST(NULL AS string) AS previous_id
  FROM skips
  UNION ALL
  SELECT
    run,
    `group`,
    time_ns,
    node,
    sequence,
    client_id,
    position,
    row.topic,
    row.`partition`,
    'went_back' AS what,
    row.offset AS first,
    row.previous_offset AS end,
    CAST(NULL AS bigint) AS records,
    cause AS reason,
    member_id,
    CAST(NULL AS string) AS previous_id
  FROM rewinds
)
SELECT
  r.*,
  coalesce(m.owner, r.member_id) AS owner,
  coalesce(m.name, r.member_id, r.client_id) AS name
FROM r
LEFT JOIN silver_memberships AS m
  ON r.run = m.run AND r.`group` = m.`group` AND r.member_id = m.member_id
