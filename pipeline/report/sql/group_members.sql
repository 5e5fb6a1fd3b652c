-- Members of a group over time: in its run with the most downtime, of the 20 groups with
-- the most; of each the first 300.
-- from_ns: when it came
-- until_ns: when it went, or the end of the run
-- how: how it went: left, removed, expired, replaced, kicked or unseen; null: it stayed
-- rows_of_group: members of the group in this run
SELECT run, `group`, name, member_id, from_ns, until_ns, how, rows_of_group
FROM (
  SELECT
    m.run, m.`group`, m.name, m.member_id, m.from_ns,
    coalesce(m.until_ns, r.last_ns) AS until_ns, m.how,
    count(*) OVER (PARTITION BY m.`group`) AS rows_of_group,
    row_number() OVER (PARTITION BY m.`group` ORDER BY m.from_ns, m.member_id) AS place
  FROM silver_memberships AS m
  JOIN gold_runs AS r ON r.run = m.run
  JOIN (
    SELECT run, `group`
    FROM (
      SELECT
        run, `group`, downtime_s, rebalances,
        row_number() OVER (
          PARTITION BY `group` ORDER BY downtime_s DESC, rebalances DESC, run
        ) AS run_place
      FROM gold_groups
    )
    WHERE run_place = 1
    ORDER BY downtime_s DESC, rebalances DESC, `group`
    LIMIT 20
  ) AS w ON w.run = m.run AND w.`group` = m.`group`
)
WHERE place <= 300
ORDER BY `group`, from_ns, member_id
