SELECT
    run,
    "group",
    time_ns,
    node,
    sequence,
    kind,
    member_id,
    coalesce(instance_id, client_id, member_id) AS name,
    host,
    cause,
    error
FROM events
WHERE
    kind = 'member_refused'
    OR (kind = 'member_kicked' AND cause IN ('full', 'group_over_max_size'))
