-- Known problems of a group of one kind: the findings of one code, added up.
-- key: run, group, code
--
-- run string: id of the run of the broker
-- group string: group id
-- code string: of the findings
-- findings bigint: number of findings
-- sure bigint: of these, those with is_sure
-- cases bigint: sum of their evidence_count
-- from_ns bigint: the earliest from_ns
-- until_ns bigint: the latest until_ns
-- downtime_s double: sum of their unread_ns, in partition-seconds
-- paused_s double: sum of their paused_ns, in member-seconds
-- records bigint: sum of their records
-- downtime_saved_s double: sum of their saving_ns, in partition-seconds; null: unknown
-- title string: of the one with the largest saving_ns, or else unread_ns
-- advice string: likewise
-- setting string: likewise
-- current string: likewise
-- suggested string: likewise
-- Words and the setting are those of the costliest finding.
WITH sums AS (
  SELECT
    run,
    `group`,
    code,
    count(*) AS findings,
    count_if(is_sure) AS sure,
    sum(evidence_count) AS cases,
    min(from_ns) AS from_ns,
    max(until_ns) AS until_ns,
    sum(unread_ns) / 1e9 AS downtime_s,
    sum(paused_ns) / 1e9 AS paused_s,
    sum(records) AS records,
    sum(saving_ns) / 1e9 AS downtime_saved_s,
    max_by(
      struct(title, advice, setting, current, suggested),
      struct(coalesce(saving_ns, -1), unread_ns, evidence_count, finding)
    ) AS said
  FROM silver_findings
  GROUP BY run, `group`, code
)
SELECT *, said.* FROM sums
