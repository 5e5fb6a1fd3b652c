-- Groups and their rebalances, over all runs; the most downtime first;
-- at most 500.
-- runs: number of runs with this group
-- downtime_share: downtime_s / partition_s of all runs
-- downtime_share_least: of its runs, the least
-- downtime_share_most: of its runs, the most
-- bytes_per_rebalance: metadata and assignments, by the number of completed
-- members_most: of its completed rebalances: the most members
-- expired_unread_max_s: the longest that a partition of an expired member was idle; null: none
SELECT
  `group`,
  count(DISTINCT run) AS runs,
  sum(rebalances) AS rebalances,
  sum(completed) AS completed,
  sum(interrupted) AS interrupted,
  max(members_most) AS members_most,
  sum(paused_s) AS paused_s,
  sum(downtime_s) AS downtime_s,
  sum(unprocessed_s) AS unprocessed_s,
  sum(partition_s) AS partition_s,
  sum(downtime_s) / nullif(sum(partition_s), 0) AS downtime_share,
  min(downtime_share) AS downtime_share_least,
  max(downtime_share) AS downtime_share_most,
  sum(storms) AS storms,
  sum(storm_rebalances) AS storm_rebalances,
  sum(refused_full) AS refused_full,
  sum(expired) AS expired,
  sum(expired_unread_s) AS expired_unread_s,
  max(expired_unread_max_s) AS expired_unread_max_s,
  sum(partitions_moved) AS partitions_moved,
  sum(partitions_moved_least) AS partitions_moved_least,
  (sum(metadata_bytes) + sum(assignment_bytes)) / nullif(sum(completed), 0)
    AS bytes_per_rebalance,
  sum(commits) AS commits,
  sum(commit_failures) AS commit_failures,
  sum(received) AS received,
  sum(again_certain) AS again_certain,
  sum(again_possible) AS again_possible,
  sum(skipped) AS skipped,
  sum(went_back) AS went_back,
  sum(uncommitted) AS uncommitted
FROM gold_groups
GROUP BY `group`
ORDER BY downtime_s DESC, paused_s DESC, rebalances DESC, refused_full DESC, `group`
LIMIT 500
