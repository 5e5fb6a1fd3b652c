-- The time for which a member owns a partition. It begins with a partitions_changed
-- that has the partition in partitions_gained, or, with the cause loaded, in owned if
-- the member was not known to own it; it ends with the member's next partitions_changed
-- that has it in partitions_lost.
-- key: run, group, topic, partition, member_id, from_ns, from_sequence
--
-- run string: id of the run of the broker
-- group string: group id
-- topic string: the partition's topic
-- partition int: its number
-- member_id string: member id
-- owner string: see Terms
-- name string: see Terms
-- from_ns bigint: time_ns of the event that it begins with
-- from_node int: that event's node
-- from_sequence bigint: that event's sequence
-- until_ns bigint: time_ns of the event that it ends with
-- began string: the cause of the event that it begins with
WITH lists AS (
  SELECT
    run,
    `group`,
    time_ns,
    node,
    sequence,
    cause,
    member_id,
    explode(
      array(
        struct('gained' AS step, partitions_gained AS parts),
        struct('lost' AS step, partitions_lost AS parts),
        struct('loaded' AS step, CASE WHEN cause = 'loaded' THEN owned END AS parts)
      )
    ) AS list
  FROM bronze_events
  WHERE kind = 'partitions_changed' AND `group` IS NOT NULL
),
topics AS (
  SELECT *, list.step, explode(list.parts) AS part FROM lists
),
steps AS (
  SELECT
    run,
    `group`,
    time_ns,
    node,
    sequence,
    cause,
    member_id,
    step,
    part.topic,
    explode(part.partitions) AS `partition`
  FROM topics
),
-- Along the reversed order: the next loss is the last one so far.
seen AS (
  SELECT
    *,
    last(CASE WHEN step = 'lost' THEN time_ns END) IGNORE NULLS OVER (
      PARTITION BY run, `group`, topic, `partition`, member_id
      ORDER BY time_ns DESC, node DESC, sequence DESC
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS until_ns,
    lead(step) OVER (
      PARTITION BY run, `group`, topic, `partition`, member_id
      ORDER BY time_ns DESC, node DESC, sequence DESC
    ) AS step_before
  FROM steps
)
SELECT
  s.run,
  s.`group`,
  s.topic,
  s.`partition`,
  s.member_id,
  m.owner,
  m.name,
  s.time_ns AS from_ns,
  s.node AS from_node,
  s.sequence AS from_sequence,
  s.until_ns,
  s.cause AS began
FROM seen AS s
LEFT JOIN silver_memberships AS m
  ON s.run = m.run AND s.`group` = m.`group` AND s.member_id = m.member_id
WHERE
  s.step = 'gained'
  OR (s.step = 'loaded' AND coalesce(s.step_before = 'lost', true))
