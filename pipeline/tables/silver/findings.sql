-- A known problem of a group, with advice: the latest revision of a finding that was
-- not withdrawn. See the event for the full meaning of each column.
-- key: run, group, finding
--
-- run string: id of the run of the broker
-- group string: group id
-- finding string: its key in the run and group
-- code string: the problem
-- title string: the problem in words
-- advice string: the remedy
-- is_sure boolean: false: other things look the same
-- members array<string>: names of the members that it is about
-- evidence_count bigint: number of observations
-- from_ns bigint: since_ns of the event
-- until_ns bigint: of the event
-- unread_ns bigint: partition-time without a reader that it cost
-- paused_ns bigint: member-time in which members paused for it
-- records bigint: of the event
-- setting string: setting that would have helped; null: none
-- current string: its value; null: unknown
-- suggested string: the suggested value
-- saving_ns bigint: partition-time that it would have saved; null: unknown
-- revision bigint: number of its revisions
-- The broker judges, by the rules in docs/reference/why.md.
SELECT *, since_ns AS from_ns
FROM (
  SELECT
    *,
    row_number() OVER (
      PARTITION BY run, `group`, finding
      ORDER BY revision DESC, time_ns DESC, node, sequence
    ) AS place
  FROM bronze_events
  WHERE kind = 'finding' AND `group` IS NOT NULL
)
WHERE place = 1 AND NOT is_withdrawn
