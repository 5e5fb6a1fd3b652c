-- A stretch reaches from a rebalance_started or a group_loaded to the next one.
WITH told AS (
    SELECT
        *,
        (time_ns, node, sequence) AS place,
        count(CASE WHEN kind IN ('rebalance_started', 'group_loaded') THEN 1 END) OVER so_far
            AS stretch,
        count(CASE WHEN kind = 'rebalance_started' THEN 1 END) OVER so_far AS number
    FROM (
        SELECT
            run, "group", time_ns, node, sequence, kind, cause, reason, member_id,
            instance_id, client_id, culprits, previous_state, members, generation,
            gained, lost, waits, duration_ns, protocol, leader, bytes, metadata_bytes
        FROM events
        WHERE kind IN (
            'rebalance_started', 'group_loaded', 'join_completed', 'assignment_made'
        )
    )
    WINDOW so_far AS (
        PARTITION BY run, "group" ORDER BY time_ns, node, sequence
        ROWS UNBOUNDED PRECEDING
    )
),

begun AS (
    SELECT
        *,
        lead(kind) OVER onward AS next_kind,
        lead(time_ns) OVER onward AS next_ns
    FROM told
    WHERE kind IN ('rebalance_started', 'group_loaded')
    WINDOW onward AS (PARTITION BY run, "group" ORDER BY stretch)
),

joined AS (
    SELECT * FROM told
    WHERE kind = 'join_completed'
    QUALIFY
        row_number() OVER (PARTITION BY run, "group", stretch ORDER BY place) = 1
),

assigned AS (
    SELECT * FROM told
    WHERE kind = 'assignment_made'
    QUALIFY
        row_number() OVER (PARTITION BY run, "group", stretch ORDER BY place) = 1
),

longest AS (
    SELECT run, "group", stretch, wait.member_id AS waited_for, wait.waited_ns
    FROM (SELECT run, "group", stretch, unnest(waits) AS wait FROM joined)
    QUALIFY
        row_number() OVER (
            PARTITION BY run, "group", stretch
            ORDER BY wait.waited_ns DESC, wait.member_id
        ) = 1
),

judged AS (
    SELECT
        begun.*,
        CASE
            WHEN assigned.stretch IS NOT NULL THEN 'completed'
            WHEN len(joined.members) = 0 THEN 'emptied'
            WHEN next_kind = 'rebalance_started' THEN 'interrupted'
            WHEN next_kind = 'group_loaded' THEN 'moved'
            ELSE 'open'
        END AS outcome,
        joined.time_ns AS joined_ns,
        assigned.time_ns AS assigned_ns,
        coalesce(joined.generation, assigned.generation) AS made,
        joined.members AS joined_members,
        joined.gained AS joined_gained,
        joined.lost AS joined_lost,
        joined.cause AS join_ended,
        joined.duration_ns AS join_ns,
        assigned.duration_ns AS sync_ns,
        assigned.protocol AS assignor,
        assigned.leader AS divided_by,
        assigned.bytes AS assignment_bytes,
        assigned.metadata_bytes AS assigned_metadata_bytes
    FROM begun
    LEFT JOIN joined USING (run, "group", stretch)
    LEFT JOIN assigned USING (run, "group", stretch)
    WHERE begun.kind = 'rebalance_started'
),

timed AS (
    SELECT
        *,
        CASE outcome
            WHEN 'completed' THEN assigned_ns
            WHEN 'emptied' THEN joined_ns
            ELSE next_ns
        END AS ended_ns
    FROM judged
)

SELECT
    run,
    "group",
    number,
    node,
    sequence,
    time_ns AS started_ns,
    ended_ns,
    ended_ns - time_ns AS duration_ns,
    outcome,
    cause,
    reason,
    member_id AS culprit,
    coalesce(instance_id, client_id, member_id) AS culprit_name,
    culprits,
    previous_state,
    members AS expected,
    made AS generation,
    joined_members AS members,
    joined_gained AS gained,
    joined_lost AS lost,
    join_ended,
    join_ns,
    sync_ns,
    waited_for,
    waited_ns,
    assignor AS protocol,
    divided_by AS leader,
    assignment_bytes,
    assigned_metadata_bytes AS metadata_bytes
FROM timed
LEFT JOIN longest USING (run, "group", stretch)
