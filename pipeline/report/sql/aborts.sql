-- Aborted transactions, by transactional id and cause, over all runs; at most 500 rows.
-- aborts: their number
-- open_max_s: the longest of them was open for this long, in seconds
-- held_back: records that their markers released, together
SELECT
  transactional_id, cause, count(*) AS aborts, max(open_ns) / 1e9 AS open_max_s,
  sum(held_back) AS held_back
FROM silver_transactions
WHERE result = 'aborted'
GROUP BY transactional_id, cause
ORDER BY aborts DESC, transactional_id, cause
LIMIT 500
