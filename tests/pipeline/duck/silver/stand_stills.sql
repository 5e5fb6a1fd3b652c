WITH phases AS (
    SELECT
        *,
        last_value(CASE WHEN kind <> 'member_replaced' THEN kind END IGNORE NULLS) OVER (
            PARTITION BY run, "group" ORDER BY time_ns, node, sequence
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS kind_before
    FROM (
        SELECT
            run, "group", time_ns, node, sequence, kind, member_id, replaced_member_id
        FROM events
        WHERE
            kind IN (
                'rebalance_started', 'join_completed', 'group_loaded', 'member_replaced'
            )
    )
),

causing AS (
    SELECT DISTINCT run, "group", time_ns, unnest(culprits) AS member_id
    FROM events
    WHERE kind = 'rebalance_started' AND cause = 'static_member_replaced'
),

-- Static members that come back to an assignment that is about to change.
returned AS (
    SELECT
        phases.run, phases.group, phases.member_id, replaced_member_id,
        phases.time_ns, node, sequence
    FROM phases
    LEFT JOIN causing USING (run, "group", time_ns, member_id)
    WHERE
        kind = 'member_replaced'
        AND (kind_before IS NOT DISTINCT FROM 'rebalance_started' OR causing.run IS NOT NULL)
),

-- What a member does; a return is a question about what its old id had.
steps AS (
    SELECT
        run, "group", member_id, time_ns, node, sequence,
        CASE
            WHEN kind = 'partitions_changed' THEN 'changes'
            WHEN kind = 'member_synced' THEN 'synced'
            ELSE 'joins'
        END AS step,
        CASE WHEN kind = 'partitions_changed' THEN coalesce(has_some, false) END
            AS has_some,
        NULL AS as_member
    FROM part.steps
    WHERE
        kind IN ('partitions_changed', 'member_synced')
        OR (kind = 'member_joined' AND cause IS DISTINCT FROM 'repeated')
    UNION ALL
    SELECT
        run, "group", replaced_member_id, time_ns, node, sequence, 'joins', NULL,
        member_id
    FROM returned
),

asked AS (
    SELECT
        *,
        last_value(has_some IGNORE NULLS) OVER (
            PARTITION BY run, "group", member_id ORDER BY time_ns, node, sequence
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS had_some
    FROM steps
),

-- Joins while it waits are part of the same wait.
marks AS (
    SELECT
        run, "group", coalesce(as_member, member_id) AS member_id,
        time_ns, node, sequence, 'waits' AS mark, coalesce(had_some, false) AS had_some
    FROM asked
    WHERE step = 'joins'
    UNION ALL
    SELECT run, "group", member_id, time_ns, node, sequence, 'synced', NULL
    FROM asked
    WHERE step = 'synced'
    UNION ALL
    SELECT run, "group", member_id, time_ns, node, sequence, 'gone', NULL
    FROM part.ends
    UNION ALL
    SELECT run, "group", member_id, until_ns, 2147483647, 2147483647, 'gone', NULL
    FROM silver.memberships
    WHERE how = 'forgotten'
),

waits AS (
    SELECT
        *,
        lag(mark) OVER in_order AS mark_before,
        first_value(
            CASE WHEN mark <> 'waits' THEN {'mark': mark, 'time_ns': time_ns} END
            IGNORE NULLS
        ) OVER (in_order ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS stop
    FROM marks
    WINDOW in_order AS (
        PARTITION BY run, "group", member_id ORDER BY time_ns, node, sequence
    )
),

began AS (
    SELECT run, "group", started_ns, max(number) AS number
    FROM silver.rebalances
    GROUP BY ALL
)

SELECT
    waits.run,
    waits.group,
    waits.member_id,
    memberships.owner,
    memberships.name,
    waits.time_ns AS from_ns,
    waits.stop.time_ns AS until_ns,
    waits.stop.mark AS ended,
    began.number
FROM waits
JOIN silver.memberships AS memberships
    ON
        waits.run = memberships.run
        AND waits.group = memberships.group
        AND waits.member_id = memberships.member_id
ASOF LEFT JOIN began
    ON
        waits.run = began.run
        AND waits.group = began.group
        AND waits.time_ns >= began.started_ns
WHERE
    waits.mark = 'waits'
    AND waits.mark_before IS DISTINCT FROM 'waits'
    AND waits.had_some
    AND memberships.is_eager IS DISTINCT FROM false
