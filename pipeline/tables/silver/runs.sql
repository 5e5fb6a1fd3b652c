-- A run: from a start of the broker to its stop.
-- key: run
--
-- run string: its unique id
-- labels map<string,string>: the user's labels (`serve --label`)
-- scenario string: the label scenario; null: not set
-- seed string: the label seed; null: not set
-- first_ns bigint: time_ns of its first event
-- last_ns bigint: the run's end
-- events bigint: number of events
-- nodes array<int>: nodes with events, in order
-- groups bigint: number of groups with events
WITH nodes AS (
  SELECT
    run,
    node,
    `group`,
    min(time_ns) AS first_ns,
    max(time_ns) AS last_ns,
    min(sequence) AS sequence,
    count(1) AS events
  FROM bronze_events
  GROUP BY run, node, `group`
),
totals AS (
  SELECT
    run,
    min(first_ns) AS first_ns,
    max(last_ns) AS last_ns,
    sum(events) AS events,
    sort_array(collect_set(node)) AS nodes,
    count(DISTINCT `group`) AS `groups`,
    min(struct(node, sequence)) AS first
  FROM nodes
  GROUP BY run
),
-- All events of a run have the same labels: those of the first node's first event.
labelled AS (
  SELECT /*+ BROADCAST(t) */
    t.*,
    e.labels,
    row_number() OVER (PARTITION BY t.run ORDER BY e.time_ns) AS copy
  FROM bronze_events AS e
  INNER JOIN totals AS t
    ON e.run = t.run AND e.node = t.first.node AND e.sequence = t.first.sequence
)
SELECT
  *,
  try_element_at(labels, 'scenario') AS scenario,
  try_element_at(labels, 'seed') AS seed
FROM labelled
WHERE copy = 1
