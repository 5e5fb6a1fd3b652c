-- A process that came back as another member: a row of returns of a rebalance_account;
-- of several with the same previous_id the last. A static member that took its old
-- place has no row: its end in memberships is replaced.
-- key: run, group, previous_id
--
-- run string: id of the run of the broker
-- group string: group id
-- number bigint: number of the rebalance whose account has it
-- member_id string: member id
-- owner string: see Terms
-- name string: see Terms
-- previous_id string: the former member; member_id is the new one
-- how string: end of the former member
-- from_ns bigint: when the broker last heard from the former member
-- until_ns bigint: JoinGroup of the new member
-- away_ns bigint: until_ns - from_ns
-- is_restart boolean: false: it joined on the same connection, so it never stopped
WITH came AS (
  SELECT run, `group`, number, posexplode(returns) AS (position, row)
  FROM accounts
),
-- Several accounts may have a process that came back: the last one counts.
latest AS (
  SELECT
    run,
    `group`,
    max_by(struct(number, row), struct(number, position)) AS last
  FROM came
  GROUP BY run, `group`, row.previous_id
),
r AS (
  SELECT
    run,
    `group`,
    last.number,
    last.row.member_id,
    last.row.previous_id,
    last.row.how,
    last.row.since_ns AS from_ns,
    last.row.until_ns,
    last.row.until_ns - last.row.since_ns AS away_ns,
    last.row.is_restart
  FROM latest
)
SELECT
  r.*,
  coalesce(m.owner, r.member_id) AS owner,
  coalesce(m.name, r.member_id) AS name
FROM r
LEFT JOIN silver_memberships AS m
  ON r.run = m.run AND r.`group` = m.`group` AND r.member_id = m.member_id
