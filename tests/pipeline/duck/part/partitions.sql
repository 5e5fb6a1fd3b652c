-- A number for each partition: short to sort by.
SELECT run, "group", topic, "partition", (row_number() OVER ())::INTEGER AS id
FROM (SELECT DISTINCT run, "group", topic, "partition" FROM silver.commits)
