WITH told AS (
    SELECT
        run, "group", member_id, coalesce(instance_id, client_id, member_id) AS name,
        generation, time_ns, node, sequence, kind, error,
        unnest(offsets) AS row_, generate_subscripts(offsets, 1) AS place
    FROM events
    WHERE kind IN ('offsets_committed', 'commit_refused')
)

SELECT
    run,
    "group",
    member_id,
    name,
    generation,
    time_ns,
    node,
    sequence,
    place = 1 AS is_first,
    row_.topic,
    row_.partition,
    row_.offset,
    row_.end_offset,
    CASE WHEN kind = 'commit_refused' THEN error END AS error
FROM told
