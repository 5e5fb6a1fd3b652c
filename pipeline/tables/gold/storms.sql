-- A storm: many rebalances of a group in a short time. A stretch is k consecutive
-- rebalances (k = 5) of which the last starts at most t after the first (t = 60 s); k
-- and t are options of the build. Stretches with a common rebalance are one storm.
-- key: run, group, from_ns
--
-- run string: id of the run of the broker
-- group string: group id
-- from_ns bigint: started_ns of its first rebalance
-- until_ns bigint: started_ns of its last rebalance
-- first_number bigint: number of the first
-- last_number bigint: number of the last
-- rebalances bigint: number of rebalances
-- by_cause map<string,bigint>: of these, the number by cause
-- names array<string>: their distinct culprit_names, in order, without null
WITH causes AS (
  SELECT
    run,
    `group`,
    storm,
    cause,
    count(*) AS times,
    min_by(started_ns, number) AS from_ns,
    max_by(started_ns, number) AS until_ns,
    min(number) AS first_number,
    max(number) AS last_number
  FROM storms
  GROUP BY run, `group`, storm, cause
),
whole AS (
  SELECT
    run,
    `group`,
    storm,
    min_by(from_ns, first_number) AS from_ns,
    max_by(until_ns, last_number) AS until_ns,
    min(first_number) AS first_number,
    max(last_number) AS last_number,
    sum(times) AS rebalances,
    map_from_entries(
      array_sort(
        collect_list(CASE WHEN cause IS NOT NULL THEN struct(cause AS key, times AS value) END)
      )
    ) AS by_cause,
    count(cause) AS known
  FROM causes
  GROUP BY run, `group`, storm
),
firsts AS (
  SELECT run, `group`, storm, culprit_name, min(number) AS number
  FROM storms
  WHERE culprit_name IS NOT NULL
  GROUP BY run, `group`, storm, culprit_name
),
names AS (
  SELECT
    run, `group`, storm, array_sort(collect_list(struct(number, culprit_name))) AS named
  FROM firsts
  GROUP BY run, `group`, storm
)
SELECT
  w.run,
  w.`group`,
  w.from_ns,
  w.until_ns,
  w.first_number,
  w.last_number,
  w.rebalances,
  CASE WHEN w.known > 0 THEN w.by_cause END AS by_cause,
  coalesce(transform(n.named, each -> each.culprit_name), array()) AS names
FROM whole AS w
LEFT JOIN names AS n
  ON w.run = n.run AND w.`group` = n.`group` AND w.storm = n.storm
