WITH listed AS (
    SELECT run, "group", kind, time_ns, node, sequence, unnest(members) AS member_id
    FROM events
    WHERE kind IN ('rebalance_started', 'join_completed', 'group_loaded')
),

seen AS (
    SELECT run, "group", member_id, min(time_ns) AS from_ns
    FROM (
        SELECT run, "group", member_id, time_ns FROM part.steps
        WHERE
            kind IN (
                'member_joined', 'member_replaced', 'member_synced',
                'partitions_changed'
            )
        UNION ALL
        SELECT run, "group", member_id, time_ns FROM listed
    )
    GROUP BY ALL
),

loaded AS (
    SELECT run, "group", member_id, max((time_ns, node, sequence)) AS place
    FROM listed
    WHERE kind = 'group_loaded'
    GROUP BY ALL
),

said AS (
    SELECT
        run,
        "group",
        member_id,
        arg_min(instance_id, (time_ns, node, sequence)) AS instance_id,
        arg_min(client_id, (time_ns, node, sequence)) AS client_id,
        arg_min(host, (time_ns, node, sequence)) AS host,
        arg_min(
            {
                'protocols': protocols,
                'session_timeout_ms': session_timeout_ms,
                'rebalance_timeout_ms': rebalance_timeout_ms
            },
            (time_ns, node, sequence)
        ) FILTER (kind IN ('member_joined', 'member_replaced')) AS offer,
        bool_or(
            kind = 'member_replaced' OR (kind = 'member_joined' AND is_first IS TRUE)
        ) AS is_start_known
    FROM part.steps
    GROUP BY ALL
),

last_end AS (
    SELECT * FROM part.ends
    QUALIFY
        row_number() OVER (
            PARTITION BY run, "group", member_id
            ORDER BY time_ns DESC, node DESC, sequence DESC
        ) = 1
),

gone AS (
    SELECT last_end.*
    FROM last_end
    LEFT JOIN loaded USING (run, "group", member_id)
    WHERE
        loaded.place IS NULL
        OR loaded.place < (last_end.time_ns, last_end.node, last_end.sequence)
),

-- Who has no end, and is not among those that a coordinator knew later on.
forgotten AS (
    SELECT seen.run, seen.group, seen.member_id, min(loads.time_ns) AS time_ns
    FROM seen
    LEFT JOIN loaded USING (run, "group", member_id)
    JOIN (
        SELECT run, "group", time_ns FROM events WHERE kind = 'group_loaded'
    ) AS loads
        ON
            seen.run = loads.run
            AND seen.group = loads.group
            AND loads.time_ns > seen.from_ns
    ANTI JOIN gone USING (run, "group", member_id)
    WHERE loaded.place IS NULL OR loads.time_ns > loaded.place[1]
    GROUP BY ALL
)

SELECT
    seen.run,
    seen.group,
    seen.member_id,
    coalesce(said.instance_id, seen.member_id) AS owner,
    coalesce(said.instance_id, said.client_id, seen.member_id) AS name,
    said.instance_id,
    said.client_id,
    said.host,
    len(
        list_filter(
            said.offer.protocols,
            lambda p: p NOT IN (
                'cooperative-sticky', 'stream', 'compatible', 'sessioned'
            )
        )
    ) > 0 AS is_eager,
    said.offer.session_timeout_ms,
    said.offer.rebalance_timeout_ms,
    seen.from_ns,
    coalesce(said.is_start_known, false) AS is_start_known,
    coalesce(gone.time_ns, forgotten.time_ns) AS until_ns,
    CASE WHEN forgotten.time_ns IS NULL THEN gone.how ELSE 'forgotten' END AS how,
    gone.reason,
    gone.silent_ns
FROM seen
LEFT JOIN said USING (run, "group", member_id)
LEFT JOIN gone USING (run, "group", member_id)
LEFT JOIN forgotten USING (run, "group", member_id)
