-- What ends memberships: whose, how, and why.
SELECT
    run,
    "group",
    member_id,
    time_ns,
    node,
    sequence,
    CASE kind
        WHEN 'member_left' THEN cause
        WHEN 'member_expired' THEN 'expired'
        ELSE 'kicked'
    END AS how,
    reason,
    CASE WHEN kind = 'member_expired' THEN silent_ns END AS silent_ns
FROM part.steps
WHERE kind IN ('member_left', 'member_expired', 'member_kicked')
UNION ALL
SELECT
    run, "group", replaced_member_id, time_ns, node, sequence, 'replaced', reason, NULL
FROM part.steps
WHERE kind = 'member_replaced' AND replaced_member_id IS NOT NULL
