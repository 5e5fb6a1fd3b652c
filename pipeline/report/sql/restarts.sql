-- How often a member went and another one of the same name came after it, by how it went,
-- over all runs; at most 500 rows. One that came before the old one was gone, as after a
-- crash, counts with an absence of 0. Those that follow each other within 120 s, in a run,
-- are one row. A rejoin on the same connection is no restart.
-- how: how the old one went: left, expired, kicked, removed, replaced or unseen
-- names: how many different names
-- times: how often
-- away_p50_s: from the end of the one to the start of the other, the median, in seconds
-- first_ns: the first time that one came back
-- last_ns: the last time that one came back
SELECT
  run,
  `group`,
  how,
  count(DISTINCT name) AS names,
  count(*) AS times,
  percentile(away_ns, 0.5) / 1e9 AS away_p50_s,
  min(from_ns) AS first_ns,
  max(from_ns) AS last_ns
FROM (
  SELECT
    *,
    count_if(is_new) OVER (
      PARTITION BY run, `group`, how ORDER BY from_ns, member_id
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS burst
  FROM (
    SELECT
      *,
      from_ns > 120000000000 + coalesce(
        lag(from_ns) OVER (PARTITION BY run, `group`, how ORDER BY from_ns, member_id), 0
      ) AS is_new
    FROM (
      SELECT
        run, `group`, name, member_id, from_ns,
        lag(how) OVER earlier AS how,
        coalesce(connection = lag(last_connection) OVER earlier, false) AS is_rejoin,
        greatest(from_ns - lag(until_ns) OVER earlier, 0) AS away_ns
      FROM silver_memberships
      WINDOW earlier AS (PARTITION BY run, `group`, name ORDER BY from_ns, member_id)
    )
    WHERE how IS NOT NULL AND NOT is_rejoin
  )
)
GROUP BY run, `group`, how, burst
ORDER BY times DESC, first_ns, `group`, how
LIMIT 500
