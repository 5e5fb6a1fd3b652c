-- Known problems, by group and code, over all runs; at most 500 rows, those first whose
-- advice would have saved the most, then those that cost the most.
-- runs: runs in which the broker found it
-- title: of the costliest run
-- advice: of the costliest run
-- setting: of the costliest run; null: the advice names none
-- current: of the costliest run; null: unknown
-- suggested: of the costliest run
SELECT
  `group`,
  code,
  count(*) AS runs,
  sum(findings) AS findings,
  sum(sure) AS sure,
  sum(cases) AS cases,
  sum(downtime_s) AS downtime_s,
  sum(paused_s) AS paused_s,
  sum(records) AS records,
  sum(downtime_saved_s) AS downtime_saved_s,
  max_by(title, struct(coalesce(downtime_saved_s, -1), downtime_s, cases, run)) AS title,
  max_by(advice, struct(coalesce(downtime_saved_s, -1), downtime_s, cases, run)) AS advice,
  max_by(setting, struct(coalesce(downtime_saved_s, -1), downtime_s, cases, run)) AS setting,
  max_by(current, struct(coalesce(downtime_saved_s, -1), downtime_s, cases, run)) AS current,
  max_by(suggested, struct(coalesce(downtime_saved_s, -1), downtime_s, cases, run))
    AS suggested
FROM gold_findings
GROUP BY `group`, code
ORDER BY downtime_saved_s DESC NULLS LAST, downtime_s DESC, cases DESC, `group`, code
LIMIT 500
