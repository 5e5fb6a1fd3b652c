-- The checks of the data, over all runs; those that did not pass first.
-- outcome: of the run with the worst: failed, marked, or passed
-- runs_bad: runs in which it did not pass
-- found: number found
-- of: number checked
-- share: the largest of a run
-- threshold: the share above which it does not pass
-- says: the findings, in words: of the run with the largest share
SELECT
  check,
  min_by(outcome, array_position(array('failed', 'marked', 'passed'), outcome)) AS outcome,
  count_if(outcome <> 'passed') AS runs_bad,
  sum(found) AS found,
  sum(of) AS of,
  max(share) AS share,
  max(threshold) AS threshold,
  max_by(says, share) AS says
FROM gold_quality
GROUP BY check
ORDER BY array_position(array('failed', 'marked', 'passed'), outcome), check
