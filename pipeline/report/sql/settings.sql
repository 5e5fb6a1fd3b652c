-- Settings that would help, by group and rule, over all runs; at most 500 rows, those that
-- would have saved the most first.
-- suggested: the value, of the run with the most cases
-- runs: in how many runs the rule found it
-- cases: how often it was seen
-- rebalances_saved: at the most, had it been set; null: none
-- evidence: of the run with the most cases, in words
-- confidence: 0 to 1, of the run with the most cases
SELECT
  `group`,
  rule,
  setting,
  `where`,
  max_by(suggested, struct(cases, run)) AS suggested,
  count(DISTINCT run) AS runs,
  sum(cases) AS cases,
  sum(rebalances_saved) AS rebalances_saved,
  sum(paused_saved_s) AS paused_saved_s,
  max_by(confidence, struct(cases, run)) AS confidence,
  max_by(evidence, struct(cases, run)) AS evidence
FROM gold_settings
GROUP BY `group`, rule, setting, `where`
ORDER BY paused_saved_s DESC NULLS LAST, confidence DESC, `group`, rule
LIMIT 500
