-- Members of a group over time: in its run with the most downtime, of the 12 groups with
-- the most; of each the first 300.
-- from_ns: when it came
-- dead_ns: the last sign of life of one that expired or was replaced; null: it went
-- until_ns: when it went, or the end of the run
-- how: how it went: left, removed, expired, replaced, kicked or unseen; null: it stayed
SELECT run, `group`, name, from_ns, dead_ns, until_ns, how
FROM (
  SELECT
    m.run, m.`group`, m.name, m.from_ns,
    CASE WHEN m.how IN ('expired', 'kicked', 'replaced') THEN m.until_ns - m.silent_ns END
      AS dead_ns,
    coalesce(m.until_ns, r.last_ns) AS until_ns, m.how,
    row_number() OVER (PARTITION BY m.`group` ORDER BY m.from_ns, m.member_id) AS place
  FROM silver_memberships AS m
  JOIN gold_runs AS r ON r.run = m.run
  JOIN (
    SELECT
      `group`, max_by(run, struct(downtime_s, rebalances, run)) AS run,
      sum(downtime_s) AS downtime_s, sum(paused_s) AS paused_s,
      sum(rebalances) AS rebalances
    FROM gold_groups
    GROUP BY `group`
    ORDER BY downtime_s DESC, paused_s DESC, rebalances DESC, `group`
    LIMIT 12
  ) AS w ON w.run = m.run AND w.`group` = m.`group`
)
WHERE place <= 300
ORDER BY `group`, from_ns, name
