-- Members that expired, by name, over all runs: the broker did not hear of them for
-- their session timeout; at most 1,000 rows.
-- crashes: memberships that ended as expired
-- runs: in how many runs
-- first_ns: when the first of them expired
-- last_ns: when the last of them expired
-- session_timeout_ms: the longest of theirs
-- partitions: how many times a partition went from it to a new owner
-- crash_idle_s: partition-seconds from its last sign of life to the new owner
-- crash_idle_max_s: the longest of those; null: there is none
SELECT
  m.`group`,
  m.name,
  count(*) AS crashes,
  count(DISTINCT m.run) AS runs,
  min(m.until_ns) AS first_ns,
  max(m.until_ns) AS last_ns,
  max(m.session_timeout_ms) AS session_timeout_ms,
  coalesce(sum(o.partitions), 0) AS partitions,
  coalesce(sum(o.idle_ns), 0) / 1e9 AS crash_idle_s,
  max(o.longest_ns) / 1e9 AS crash_idle_max_s
FROM silver_memberships AS m
LEFT JOIN (
  SELECT
    run, `group`, previous_member_id AS member_id, count(*) AS partitions,
    sum(crash_idle_ns) AS idle_ns, max(crash_idle_ns) AS longest_ns
  FROM silver_ownership
  WHERE crash_idle_ns IS NOT NULL
  GROUP BY run, `group`, previous_member_id
) AS o ON o.run = m.run AND o.`group` = m.`group` AND o.member_id = m.member_id
WHERE m.how = 'expired'
GROUP BY m.`group`, m.name
ORDER BY crash_idle_s DESC, crashes DESC, `group`, name
LIMIT 1000
