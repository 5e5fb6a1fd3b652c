-- Transactions of each run, those with the most aborts first; at most 500 runs.
SELECT
  run, transactions, transactional_ids, committed, aborted, undecided, aborts_by_cause,
  open_p50_s, open_p99_s, open_max_s, held_back
FROM gold_transactions
WHERE hour IS NULL
ORDER BY aborted DESC, open_max_s DESC, run
LIMIT 500
