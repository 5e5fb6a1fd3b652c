-- Commits that were refused, by group and error, over all runs; at most 500 rows.
-- error: why, as Kafka names it
-- commits: commit_refused events with it
SELECT `group`, error, sum(failures) AS commits
FROM (
  SELECT `group`, explode(commit_failures_by_error) AS (error, failures)
  FROM gold_groups
)
GROUP BY `group`, error
ORDER BY commits DESC, `group`, error
LIMIT 500
