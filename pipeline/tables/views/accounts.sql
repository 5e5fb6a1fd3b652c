-- The account of each rebalance once, with its number in the group.
-- A broker that has forgotten that it published an account publishes it again: of
-- several the whole one counts, else the first.
SELECT
  *,
  row_number() OVER (
    PARTITION BY run, `group` ORDER BY started_ns, node, started_sequence
  ) AS number
FROM (
  SELECT
    *,
    row_number() OVER (
      PARTITION BY run, `group`, node, started_sequence
      ORDER BY is_whole DESC, sequence
    ) AS copy
  FROM bronze_events
  WHERE kind = 'rebalance_account' AND `group` IS NOT NULL
)
WHERE copy = 1
