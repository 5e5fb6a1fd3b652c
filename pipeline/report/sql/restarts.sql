-- How often a process was restarted, by how its member went, over all runs; at most 500
-- rows. Those that follow each other within 120 s, in a run, are one row. A rejoin on the
-- same connection is no restart. A static member that took its old place is replaced.
-- how: how the old one went: left, expired, kicked, removed, replaced or unseen
-- names: different names
-- times: number of restarts
-- away_p50_s: from the last sign of the old one to the new one, the median, in seconds
-- first_ns: the first return
-- last_ns: the last return
SELECT
  run,
  `group`,
  how,
  count(DISTINCT name) AS names,
  count(*) AS times,
  percentile(away_ns, 0.5) / 1e9 AS away_p50_s,
  min(back_ns) AS first_ns,
  max(back_ns) AS last_ns
FROM (
  SELECT
    *,
    count_if(is_new) OVER (
      PARTITION BY run, `group`, how ORDER BY back_ns, id
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS burst
  FROM (
    SELECT
      *,
      back_ns > 120000000000 + coalesce(
        lag(back_ns) OVER (PARTITION BY run, `group`, how ORDER BY back_ns, id), 0
      ) AS is_new
    FROM (
      SELECT run, `group`, name, previous_id AS id, how, until_ns AS back_ns, away_ns
      FROM silver_returns WHERE is_restart
      UNION ALL
      SELECT run, `group`, name, member_id, how, until_ns, silent_ns
      FROM silver_memberships WHERE how = 'replaced'
    )
  )
)
GROUP BY run, `group`, how, burst
ORDER BY times DESC, first_ns, `group`, how
LIMIT 500
