-- Hours (UTC) of groups, over all runs; the 12 groups that paused longest, at most
-- 1,000 hours of them, the latest.
SELECT
  hour,
  `group`,
  sum(rebalances) AS rebalances,
  sum(paused_s) AS paused_s,
  sum(downtime_s) AS downtime_s,
  sum(partition_s) AS partition_s,
  sum(downtime_s) / nullif(sum(partition_s), 0) AS downtime_share,
  sum(expired) AS expired,
  sum(refused_full) AS refused_full,
  sum(commit_failures) AS commit_failures
FROM gold_hours
WHERE `group` IN (
  SELECT `group` FROM (
    SELECT `group`, sum(paused_s) AS paused_s, sum(rebalances) AS rebalances
    FROM gold_groups GROUP BY `group`
    ORDER BY paused_s DESC, rebalances DESC, `group`
    LIMIT 12
  )
)
GROUP BY hour, `group`
ORDER BY hour DESC, `group`
LIMIT 1000
