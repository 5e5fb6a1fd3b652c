-- The time for which partitions of a topic that had a reader have none: a row of unread
-- of a rebalance_account or an unread_account. Sums count each moment once.
-- key: run, group, number, position, topic
--
-- run string: id of the run of the broker
-- group string: group id
-- number bigint: number of the rebalance whose account has it; it may have begun
--   earlier. Null: an unread_account, which is of no rebalance
-- position int: position of the row in the account; without a rebalance, in all
--   unread_accounts of the group
-- topic string: the partitions' topic
-- member_id string: member id
-- owner string: see Terms
-- name string: see Terms
-- reader string: the member that reads them next; null: none yet
-- cause string: {unread_causes}
-- from_ns bigint: its start; after a crash: the last sign of life
-- until_ns bigint: its end
-- partition_numbers array<int>: the partitions
-- partitions bigint: number of partitions
-- unread_ns bigint: (until_ns - from_ns) * partitions
-- records bigint: records appended to them meanwhile, by the ends of their logs; null:
--   unknown
-- end_offsets array<bigint>: the ends of their logs at until_ns; null: unknown
-- Rows outside of rebalances have no number: their positions are the group's.
WITH outside AS (
  SELECT run, `group`, node, closed_sequence, cause, posexplode(unread) AS (at, row)
  FROM (
    SELECT
      *,
      row_number() OVER (
        PARTITION BY run, `group`, node, closed_sequence, cause ORDER BY sequence
      ) AS copy
    FROM bronze_events
    WHERE kind = 'unread_account' AND `group` IS NOT NULL
  )
  WHERE copy = 1
),
gaps AS (
  SELECT run, `group`, number, posexplode(unread) AS (position, row)
  FROM accounts
  UNION ALL
  SELECT
    run,
    `group`,
    CAST(NULL AS int) AS number,
    row_number() OVER (
      PARTITION BY run, `group` ORDER BY node, closed_sequence, cause, at
    ) - 1 AS position,
    row
  FROM outside
),
parts AS (
  SELECT *, posexplode(row.parts) AS (part_at, part) FROM gaps
),
r AS (
  SELECT
    run,
    `group`,
    number,
    position,
    part.topic,
    row.member_id,
    row.reader,
    row.cause,
    row.since_ns AS from_ns,
    row.until_ns,
    part.partitions AS partition_numbers,
    CAST(size(part.partitions) AS bigint) AS partitions,
    (row.until_ns - row.since_ns) * size(part.partitions) AS unread_ns,
    get(row.log_ends, part_at).records AS records,
    get(row.log_ends, part_at).offsets AS end_offsets
  FROM parts
)
SELECT
  r.*,
  coalesce(m.owner, r.member_id) AS owner,
  coalesce(m.name, r.member_id) AS name
FROM r
LEFT JOIN silver_memberships AS m
  ON r.run = m.run AND r.`group` = m.`group` AND r.member_id = m.member_id
