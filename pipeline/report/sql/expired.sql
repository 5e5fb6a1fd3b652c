-- Members whose sessions expired, by name, over all runs; at most 1,000 rows.
-- expired: memberships that ended as expired
-- runs: number of runs
-- first_ns: when the first of them expired
-- last_ns: when the last of them expired
-- session_timeout_ms: the longest of theirs
-- partitions: times that another member was assigned a partition of it
-- expired_unread_s: partition-seconds from its last request to the next reader
-- expired_unread_max_s: the longest of those; null: there is none
SELECT
  m.`group`,
  m.name,
  count(*) AS expired,
  count(DISTINCT m.run) AS runs,
  min(m.until_ns) AS first_ns,
  max(m.until_ns) AS last_ns,
  max(m.session_timeout_ms) AS session_timeout_ms,
  coalesce(sum(u.partitions), 0) AS partitions,
  coalesce(sum(u.unread_ns), 0) / 1e9 AS expired_unread_s,
  max(u.longest_ns) / 1e9 AS expired_unread_max_s
FROM silver_memberships AS m
LEFT JOIN (
  SELECT
    run, `group`, member_id,
    sum(if(reader IS NULL, 0, partitions)) AS partitions,
    sum(unread_ns) AS unread_ns, max(until_ns) - min(from_ns) AS longest_ns
  FROM silver_unread
  WHERE cause = 'expired'
  GROUP BY run, `group`, member_id
) AS u ON u.run = m.run AND u.`group` = m.`group` AND u.member_id = m.member_id
WHERE m.how = 'expired'
GROUP BY m.`group`, m.name
ORDER BY expired_unread_s DESC, expired DESC, `group`, name
LIMIT 1000
