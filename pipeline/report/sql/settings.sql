-- Settings that would help, by group and rule, over all runs; at most 500 rows, those that
-- would have saved the most first.
-- suggested: the value, of the run with the most cases
-- runs: runs in which the rule found it
-- cases: times that it was seen
-- rebalances_saved: at the most, had it been set; null: none
-- together_s: downtime that all rules of the group save together, in partition-seconds:
--   less than their sum if they save the same moments; null: none
-- evidence: of the run with the most cases, in words
-- confidence: 0 to 1, of the run with the most cases
SELECT
  s.`group`,
  s.rule,
  s.setting,
  s.`where`,
  max_by(s.suggested, struct(s.cases, s.run)) AS suggested,
  count(DISTINCT s.run) AS runs,
  sum(s.cases) AS cases,
  sum(s.rebalances_saved) AS rebalances_saved,
  sum(s.downtime_saved_s) AS downtime_saved_s,
  max(t.together_s) AS together_s,
  max_by(s.confidence, struct(s.cases, s.run)) AS confidence,
  max_by(s.evidence, struct(s.cases, s.run)) AS evidence
FROM gold_settings AS s
JOIN (
  SELECT `group`, sum(together_s) AS together_s
  FROM (SELECT DISTINCT run, `group`, together_s FROM gold_settings)
  GROUP BY `group`
) AS t ON t.`group` = s.`group`
GROUP BY s.`group`, s.rule, s.setting, s.`where`
ORDER BY downtime_saved_s DESC NULLS LAST, confidence DESC, s.`group`, s.rule
LIMIT 500
