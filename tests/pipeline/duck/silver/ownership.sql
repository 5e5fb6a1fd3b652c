WITH changed AS (
    SELECT
        run, "group", member_id, cause, time_ns, node, sequence,
        owned, partitions_gained, partitions_lost
    FROM events
    WHERE kind = 'partitions_changed'
),

parts AS (
    SELECT * EXCLUDE (owned, partitions_gained, partitions_lost),
        'gains' AS step, unnest(partitions_gained) AS part
    FROM changed
    UNION ALL
    SELECT * EXCLUDE (owned, partitions_gained, partitions_lost),
        'loses' AS step, unnest(partitions_lost) AS part
    FROM changed
    UNION ALL
    SELECT * EXCLUDE (owned, partitions_gained, partitions_lost),
        'has' AS step, unnest(owned) AS part
    FROM changed
    WHERE cause = 'loaded'
),

steps AS (
    SELECT
        * EXCLUDE (part),
        part.topic AS topic,
        unnest(part.partitions) AS "partition"
    FROM parts
),

lives AS (
    SELECT
        *,
        lag(step) OVER so_far AS before,
        first_value(CASE WHEN step = 'loses' THEN time_ns END IGNORE NULLS) OVER (
            so_far ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS until_ns
    FROM steps
    WINDOW so_far AS (
        PARTITION BY run, "group", topic, "partition", member_id
        ORDER BY time_ns, node, sequence
    )
),

numbered AS (
    SELECT
        run, node, sequence, kind,
        nullif(count(CASE WHEN kind = 'rebalance_started' THEN 1 END) OVER (
            PARTITION BY run, "group" ORDER BY time_ns, node, sequence
            ROWS UNBOUNDED PRECEDING
        ), 0) AS number
    FROM events
    WHERE kind IN ('rebalance_started', 'partitions_changed')
),

rows_ AS (
    SELECT
        lives.*,
        numbered.number,
        coalesce(memberships.owner, lives.member_id) AS owner,
        coalesce(memberships.name, lives.member_id) AS name,
        memberships.how,
        memberships.until_ns AS gone_ns,
        memberships.silent_ns
    FROM lives
    JOIN numbered USING (run, node, sequence)
    LEFT JOIN silver.memberships AS memberships
        ON
            lives.run = memberships.run
            AND lives.group = memberships.group
            AND lives.member_id = memberships.member_id
    WHERE step = 'gains' OR (step = 'has' AND coalesce(before, 'loses') = 'loses')
),

chained AS (
    SELECT
        *,
        row_number() OVER history > 1 AS is_next,
        lag(owner) OVER history AS previous_owner,
        lag(member_id) OVER history AS previous_member_id,
        lag(until_ns) OVER history AS previous_until_ns,
        lag(how) OVER history AS previous_how,
        lag(gone_ns) OVER history AS previous_gone_ns,
        lag(silent_ns) OVER history AS previous_silent_ns
    FROM rows_
    WINDOW history AS (
        PARTITION BY run, "group", topic, "partition"
        ORDER BY time_ns, node, sequence
    )
)

SELECT
    run,
    "group",
    topic,
    "partition",
    member_id,
    owner,
    name,
    time_ns AS from_ns,
    node AS from_node,
    sequence AS from_sequence,
    until_ns,
    cause AS began,
    number,
    previous_owner,
    previous_member_id,
    coalesce(cause = 'assigned' AND previous_owner <> owner, false) AS moved,
    CASE
        WHEN is_next THEN coalesce(greatest(time_ns - previous_until_ns, 0), 0)
    END AS idle_ns,
    CASE
        WHEN
            cause = 'assigned' AND previous_how = 'expired'
            AND previous_until_ns = previous_gone_ns
            THEN time_ns - (previous_gone_ns - previous_silent_ns)
    END AS crash_idle_ns
FROM chained
