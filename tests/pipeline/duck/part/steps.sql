-- Events about one member, but those of ids that never became one.
SELECT
    run, "group", member_id, time_ns, node, sequence, kind, cause, reason, instance_id,
    client_id, host, protocols, session_timeout_ms, rebalance_timeout_ms, is_first,
    silent_ns, replaced_member_id, len(owned) > 0 AS has_some
FROM events
WHERE
    kind IN (
        'member_joined', 'member_replaced', 'member_synced', 'partitions_changed',
        'member_left', 'member_expired', 'member_kicked'
    )
    AND member_id IS NOT NULL
    AND NOT coalesce(was_pending, false)
