-- Hours (UTC) of groups, over all runs; the 12 groups that stood still longest, at most
-- 1,000 hours of them, the latest.
SELECT
  hour,
  `group`,
  sum(rebalances) AS rebalances,
  sum(stand_still_s) AS stand_still_s,
  sum(member_s) AS member_s,
  sum(stand_still_s) / nullif(sum(member_s), 0) AS capacity_lost,
  sum(crashes) AS crashes,
  sum(refused_full) AS refused_full,
  sum(commit_failures) AS commit_failures
FROM gold_hours
WHERE `group` IN (
  SELECT `group` FROM gold_groups
  GROUP BY `group` ORDER BY sum(stand_still_s) DESC, sum(rebalances) DESC, `group`
  LIMIT 12
)
GROUP BY hour, `group`
ORDER BY hour DESC, `group`
LIMIT 1000
