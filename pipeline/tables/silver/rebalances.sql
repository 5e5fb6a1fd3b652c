-- A settled rebalance: a rebalance_account. See the event for the full meaning of each
-- column.
-- key: run, group, number
--
-- run string: id of the run of the broker
-- group string: group id
-- group_type string: classic, or consumer (KIP-848)
-- number bigint: its number among those of the group, from 1, by started_ns
-- node int: the node on which it started
-- sequence bigint: started_sequence of the event
-- started_ns bigint: its start
-- joined_ns bigint: the end of its join phase; null: it did not end
-- ended_ns bigint: its end
-- settled_ns bigint: the end of its account
-- duration_ns bigint: ended_ns - started_ns
-- outcome string: {outcomes}
-- cause string: its cause
-- reason string: the reason that the client gave
-- culprit string: member_id of the event: the first member that caused it
-- culprit_name string: instance_id of the event, or else its client_id or member_id
-- culprits array<string>: all members that caused it
-- silent_ns bigint: time since the broker last heard from the culprit
-- is_second_half boolean: a cooperative member rejoined to have revoked partitions
--   assigned
-- previous_state string: the group's state before it
-- expected array<string>: members that had to join
-- generation int: the generation that it produced; null: none
-- members array<string>: members of that generation
-- gained array<string>: members that are new in that generation
-- lost array<string>: members that are no longer in the group
-- join_ended string: end of the join phase; null: unknown
-- join_ns bigint: duration of the join phase; in a consumer group, time to the target
--   assignment
-- sync_ns bigint: time from there to the leader's assignment; in a consumer group, until
--   all members had their partitions
-- waited_for string: the member with the longest waited_ns in waits of the event; in a
--   consumer group, with the longest revoke of its steps; of several, the one with the
--   smallest id; null: none
-- waited_ns bigint: its waited_ns, or the duration of that step
-- protocol string: the assignor
-- leader string: the member that computed the assignment; null: a consumer group
-- leader_cause string: why that member leads
-- is_eager boolean: members revoked all partitions; a consumer group's do not; null:
--   unknown
-- assignment_bytes bigint: size of all assignments
-- metadata_bytes bigint: size of all subscriptions
-- paused_ns bigint: member-ns of its pauses
-- unread_ns bigint: partition-ns of its unread that are downtime
-- unread_empty_ns bigint: partition-ns of group_empty
-- unprocessed_ns bigint: partition-ns for which slow pollers held their partitions:
--   beside unread_ns, not a part of it
-- is_whole boolean: no event of it is missing
-- words string: the rebalance in a sentence, as `kohort why` prints it; null: unknown
WITH waited AS (
  SELECT
    *,
    CASE
      WHEN group_type = 'consumer' THEN transform(
        filter(steps, step -> step.what = 'revoke'),
        step -> struct(step.member_id AS member_id, step.until_ns - step.since_ns AS ns)
      )
      ELSE transform(
        waits, wait -> struct(wait.member_id AS member_id, wait.waited_ns AS ns)
      )
    END AS waited
  FROM accounts
),
longest AS (
  SELECT *, array_max(transform(waited, each -> each.ns)) AS longest_ns
  FROM waited
),
found AS (
  SELECT *, filter(waited, each -> each.ns = longest_ns) AS longest
  FROM longest
)
SELECT
  run,
  `group`,
  coalesce(group_type, 'classic') AS group_type,
  number,
  node,
  started_sequence AS sequence,
  started_ns,
  joined_ns,
  ended_ns,
  settled_ns,
  duration_ns,
  outcome,
  cause,
  reason,
  member_id AS culprit,
  coalesce(instance_id, client_id, member_id) AS culprit_name,
  culprits,
  silent_ns,
  is_second_half,
  previous_state,
  expected,
  generation,
  members,
  gained,
  lost,
  join_ended_by AS join_ended,
  join_ns,
  sync_ns,
  array_min(transform(longest, each -> each.member_id)) AS waited_for,
  longest_ns AS waited_ns,
  protocol,
  leader,
  leader_cause,
  is_eager,
  bytes AS assignment_bytes,
  metadata_bytes,
  paused_ns,
  unread_ns,
  unread_empty_ns,
  unprocessed_ns,
  is_whole,
  words
FROM found
