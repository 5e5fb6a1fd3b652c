-- All runs together: their size, and the cost of their rebalances.
-- runs: their number
-- all_groups: groups that have events, by id
-- first_ns: the first event of all runs
-- last_ns: the last event of all runs
-- covered_s: seconds from the first to the last event of each run, together
-- downtime_share: downtime_s / partition_s of all of them
SELECT
  count(*) AS runs,
  (SELECT count(DISTINCT `group`) FROM gold_groups) AS all_groups,
  min(first_ns) AS first_ns,
  max(last_ns) AS last_ns,
  sum(last_ns - first_ns) / 1e9 AS covered_s,
  sum(events) AS events,
  sum(rebalances) AS rebalances,
  sum(completed) AS completed,
  sum(interrupted) AS interrupted,
  sum(paused_s) AS paused_s,
  sum(downtime_s) AS downtime_s,
  sum(partition_s) AS partition_s,
  sum(downtime_s) / nullif(sum(partition_s), 0) AS downtime_share,
  sum(storms) AS storms,
  sum(expired) AS expired,
  sum(refused_full) AS refused_full,
  sum(commits) AS commits,
  sum(commit_failures) AS commit_failures,
  sum(received) AS received,
  sum(again_certain) AS again_certain,
  sum(again_possible) AS again_possible,
  sum(skipped) AS skipped,
  sum(went_back) AS went_back,
  sum(uncommitted) AS uncommitted
FROM gold_runs
