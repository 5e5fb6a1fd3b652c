SELECT
    run,
    any_value(labels) AS labels,
    any_value(labels)['scenario'] AS scenario,
    any_value(labels)['seed'] AS seed,
    min(time_ns) AS first_ns,
    max(time_ns) AS last_ns,
    count(*) AS events,
    list_sort(list(DISTINCT node)) AS nodes,
    count(DISTINCT "group") AS groups
FROM events
GROUP BY run
