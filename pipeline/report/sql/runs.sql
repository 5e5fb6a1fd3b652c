-- The runs, those with the most lost capacity first; at most 200.
SELECT
  run, labels, first_ns, last_ns, events, `groups`, rebalances, completed,
  paused_s, unread_s, member_s, capacity_lost, expired, refused_full, commit_failures
FROM gold_runs
ORDER BY capacity_lost DESC NULLS LAST, rebalances DESC, run
LIMIT 200
