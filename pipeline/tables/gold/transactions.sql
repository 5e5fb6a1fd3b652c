-- Transactions that started in an hour of a run, and those of the whole run (hour is
-- null). An hour, or a run, without a transaction has no row.
-- key: run, hour
--
-- run string: id of the run of the broker
-- hour timestamp: start of the hour (UTC); null: the whole run
-- transactions bigint: transactions that started in it
-- transactional_ids bigint: of these, the number of different ids
-- committed bigint: of these, those with that result
-- aborted bigint: likewise
-- undecided bigint: of these, those without a result
-- aborts_by_cause map<string,bigint>: of the aborted ones, the number by cause; null:
--   none
-- open_p50_s double: percentile of open_ns of those with a result, interpolated
--   linearly; null: none
-- open_p95_s double: likewise
-- open_p99_s double: likewise
-- open_max_s double: the longest open_ns; null: none has a result
-- held_back bigint: sum of their held_back
-- held_back_max bigint: the largest of these
-- Each transaction counts in its hour, and in its run, whose hour is null.
WITH each AS (
  SELECT
    *,
    explode(
      array(
        timestamp_seconds((from_ns - pmod(from_ns, 3600000000000)) div 1000000000),
        CAST(NULL AS timestamp)
      )
    ) AS hour
  FROM silver_transactions
),
sums AS (
  SELECT
    run,
    hour,
    count(*) AS transactions,
    count(DISTINCT transactional_id) AS transactional_ids,
    count_if(result = 'committed') AS committed,
    count_if(result = 'aborted') AS aborted,
    count_if(result IS NULL) AS undecided,
    percentile(open_ns, array(0.5, 0.95, 0.99)) AS of,
    max(open_ns) / 1e9 AS open_max_s,
    sum(held_back) AS held_back,
    max(held_back) AS held_back_max
  FROM each
  GROUP BY run, hour
),
aborts AS (
  SELECT run, hour, cause, count(*) AS times
  FROM each
  WHERE result = 'aborted'
  GROUP BY run, hour, cause
),
causes AS (
  SELECT
    run AS cause_run,
    hour AS cause_hour,
    map_from_entries(
      array_sort(
        collect_list(CASE WHEN cause IS NOT NULL THEN struct(cause AS key, times AS value) END)
      )
    ) AS by_cause,
    count(cause) AS known
  FROM aborts
  GROUP BY run, hour
)
SELECT
  s.*,
  round(s.of[0], 2) / 1e9 AS open_p50_s,
  round(s.of[1], 2) / 1e9 AS open_p95_s,
  round(s.of[2], 2) / 1e9 AS open_p99_s,
  CASE WHEN c.known > 0 THEN c.by_cause END AS aborts_by_cause
FROM sums AS s
LEFT JOIN causes AS c ON s.run <=> c.cause_run AND s.hour <=> c.cause_hour
