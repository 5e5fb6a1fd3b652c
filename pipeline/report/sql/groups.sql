-- Groups over all runs, the most downtime first; at most 500.
-- runs: number of runs with this group
-- assignors: of its completed rebalances
-- group_type: classic, or consumer (KIP-848); null: both
-- is_eager: members revoke all partitions before they rejoin; null: unknown, or both
-- is_static: all members have a group.instance.id; null: some
-- partitions: number of partitions that its members owned
-- restarts: processes that stopped, without a crash, and were back within 10 minutes
-- restarted: of these, the number of different names
-- away_s: from the last sign of the old process to the new one, the median
-- other_causes: rebalances that had another cause than members that come and go
SELECT
  g.*,
  b.assignors,
  if(b.least_type = b.most_type, b.most_type, NULL) AS group_type,
  if(b.least_eager = b.most_eager, b.most_eager, NULL) AS is_eager,
  if(m.least_static = m.most_static, m.most_static, NULL) AS is_static,
  coalesce(o.partitions, 0) AS partitions,
  coalesce(r.restarts, 0) AS restarts,
  coalesce(r.restarted, 0) AS restarted,
  r.away_s,
  coalesce(b.other_causes, 0) AS other_causes
FROM (
  SELECT
    `group`,
    count(DISTINCT run) AS runs,
    max(members_most) AS members,
    sum(downtime_s) AS downtime_s,
    sum(downtime_s) / nullif(sum(partition_s), 0) AS downtime_share,
    sum(paused_s) AS paused_s,
    sum(unprocessed_s) AS unprocessed_s,
    sum(rebalances) AS rebalances,
    sum(expired) AS expired,
    sum(refused_full) AS refused_full,
    sum(commit_failures) AS commit_failures,
    sum(again_certain) AS again_certain,
    sum(again_possible) AS again_possible,
    sum(skipped) AS skipped,
    sum(uncommitted) AS uncommitted
  FROM gold_groups
  GROUP BY `group`
) AS g
LEFT JOIN (
  SELECT
    `group`,
    array_sort(collect_set(protocol)) AS assignors,
    min(group_type) AS least_type,
    max(group_type) AS most_type,
    min(is_eager) AS least_eager,
    max(is_eager) AS most_eager,
    count_if(cause NOT IN (
      'member_joined', 'member_left', 'session_expired', 'metadata_changed',
      'leader_rejoined', 'static_member_replaced'
    )) AS other_causes
  FROM silver_rebalances
  GROUP BY `group`
) AS b ON b.`group` = g.`group`
LEFT JOIN (
  SELECT
    `group`, min(instance_id IS NOT NULL) AS least_static,
    max(instance_id IS NOT NULL) AS most_static
  FROM silver_memberships
  GROUP BY `group`
) AS m ON m.`group` = g.`group`
LEFT JOIN (
  SELECT `group`, count(DISTINCT topic, partition) AS partitions
  FROM silver_ownership
  GROUP BY `group`
) AS o ON o.`group` = g.`group`
LEFT JOIN (
  SELECT
    `group`, count(*) AS restarts, count(DISTINCT name) AS restarted,
    percentile(away_ns, 0.5) / 1e9 AS away_s
  FROM (
    SELECT `group`, name, away_ns FROM silver_returns
    WHERE is_restart AND how <> 'expired'
    UNION ALL
    SELECT `group`, name, silent_ns FROM silver_memberships WHERE how = 'replaced'
  )
  GROUP BY `group`
) AS r ON r.`group` = g.`group`
ORDER BY g.downtime_s DESC, g.paused_s DESC, g.rebalances DESC, g.`group`
LIMIT 500
