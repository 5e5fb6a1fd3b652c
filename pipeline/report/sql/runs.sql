-- The runs, those with the largest share of downtime first; at most 200.
SELECT
  run, labels, first_ns, last_ns, events, `groups`, rebalances, completed,
  paused_s, downtime_s, partition_s, downtime_share, expired, refused_full, commit_failures
FROM gold_runs
ORDER BY downtime_share DESC NULLS LAST, rebalances DESC, run
LIMIT 200
