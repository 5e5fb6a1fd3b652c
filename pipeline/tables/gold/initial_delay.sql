-- Savings by the initial delay (KIP-134): pairs of runs with the same labels, including
-- scenario and seed, except group.initial.rebalance.delay.ms, which is 0 in one run and
-- above 0 in the other. All such pairs, and the groups that are in both runs.
-- key: scenario, seed, group, delay_ms, run_with, run_without
--
-- scenario string: the label scenario
-- seed string: the label seed
-- group string: the group's id
-- delay_ms bigint: the label group.initial.rebalance.delay.ms
-- run_with string: the run with the delay
-- run_without string: the run without
-- rebalances_with bigint: rebalances in groups
-- rebalances_without bigint: likewise
-- rebalances_saved bigint: without - with
-- downtime_with_s double: downtime_s in groups
-- downtime_without_s double: likewise
-- downtime_saved_s double: without - with
-- first_assignment_with_s double: time from the first from_ns of a membership of the
--   group to the first ended_ns of a completed rebalance; null: none
-- first_assignment_without_s double: likewise
-- later_s double: with - without: the cost; null: one of them is null
WITH labelled AS (
  SELECT
    run,
    scenario,
    seed,
    try_cast(
      try_element_at(labels, 'group.initial.rebalance.delay.ms') AS bigint
    ) AS delay_ms,
    -- As a list in order, as maps cannot be compared.
    array_sort(
      map_entries(
        map_filter(labels, (key, value) -> key != 'group.initial.rebalance.delay.ms')
      )
    ) AS others
  FROM silver_runs
  WHERE scenario IS NOT NULL AND seed IS NOT NULL
),
came AS (
  SELECT run, `group`, min(from_ns) AS came_ns
  FROM silver_memberships
  GROUP BY run, `group`
),
assigned AS (
  SELECT run, `group`, min(ended_ns) AS assigned_ns
  FROM silver_rebalances
  WHERE outcome = 'completed'
  GROUP BY run, `group`
),
costs AS (
  SELECT
    g.run,
    g.`group`,
    g.rebalances,
    g.downtime_s,
    (a.assigned_ns - c.came_ns) / 1e9 AS first_assignment_s
  FROM gold_groups AS g
  LEFT JOIN came AS c ON g.run = c.run AND g.`group` = c.`group`
  LEFT JOIN assigned AS a ON g.run = a.run AND g.`group` = a.`group`
)
SELECT
  w.scenario,
  w.seed,
  a.`group`,
  w.delay_ms,
  w.run AS run_with,
  o.run AS run_without,
  a.rebalances AS rebalances_with,
  b.rebalances AS rebalances_without,
  b.rebalances - a.rebalances AS rebalances_saved,
  a.downtime_s AS downtime_with_s,
  b.downtime_s AS downtime_without_s,
  b.downtime_s - a.downtime_s AS downtime_saved_s,
  a.first_assignment_s AS first_assignment_with_s,
  b.first_assignment_s AS first_assignment_without_s,
  a.first_assignment_s - b.first_assignment_s AS later_s
FROM labelled AS w
INNER JOIN labelled AS o ON w.others = o.others
INNER JOIN costs AS a ON w.run = a.run
INNER JOIN costs AS b ON o.run = b.run AND a.`group` = b.`group`
WHERE w.delay_ms > 0 AND o.delay_ms = 0
