-- Hours (UTC) of groups, over all runs; the 12 groups that paused longest, at most
-- 1,000 hours of them, the latest.
SELECT
  hour,
  `group`,
  sum(rebalances) AS rebalances,
  sum(paused_s) AS paused_s,
  sum(unread_s) AS unread_s,
  sum(member_s) AS member_s,
  sum(paused_s) / nullif(sum(member_s), 0) AS capacity_lost,
  sum(expired) AS expired,
  sum(refused_full) AS refused_full,
  sum(commit_failures) AS commit_failures
FROM gold_hours
WHERE `group` IN (
  SELECT `group` FROM gold_groups
  GROUP BY `group` ORDER BY sum(paused_s) DESC, sum(rebalances) DESC, `group`
  LIMIT 12
)
GROUP BY hour, `group`
ORDER BY hour DESC, `group`
LIMIT 1000
