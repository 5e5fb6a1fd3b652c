-- The rebalances that are in storms, and in which: `storm` numbers those of a group.
-- A stretch is storm_rebalances rebalances that follow each other within
-- storm_seconds. A rebalance is in a storm if the last stretch that began at or before
-- it reaches to it, and in the same one as the rebalance before if a stretch has both.
-- So two running frames per row are enough for any number.
WITH numbered AS (
  SELECT
    run,
    `group`,
    number,
    started_ns,
    cause,
    culprit_name,
    row_number() OVER (PARTITION BY run, `group` ORDER BY number) AS place,
    lead(started_ns, {storm_rebalances} - 1) OVER (
      PARTITION BY run, `group` ORDER BY number
    ) - started_ns <= {storm_ns} AS begins_stretch
  FROM silver_rebalances
),
stretches AS (
  SELECT
    *,
    max(CASE WHEN begins_stretch THEN place END) OVER (
      PARTITION BY run, `group` ORDER BY number
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS stretch
  FROM numbered
),
members AS (
  SELECT
    *,
    coalesce(stretch > place - {storm_rebalances}, false) AS is_in,
    coalesce(
      lag(stretch) OVER (PARTITION BY run, `group` ORDER BY number)
      > place - {storm_rebalances},
      false
    ) AS is_same
  FROM stretches
),
counted AS (
  SELECT
    *,
    count_if(is_in AND NOT is_same) OVER (
      PARTITION BY run, `group` ORDER BY number
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS storm
  FROM members
)
SELECT run, `group`, number, started_ns, cause, culprit_name, storm
FROM counted
WHERE is_in
