WITH short AS (
    SELECT id, time_ns, node, sequence, member_id, "offset", error IS NULL AS is_accepted
    FROM silver.commits
    JOIN part.partitions USING (run, "group", topic, "partition")
),

-- Of each row, the last accepted one before it.
followed AS (
    SELECT
        *,
        last_value(
            CASE
                WHEN is_accepted
                    THEN {'node': node, 'sequence': sequence, 'offset': "offset"}
            END IGNORE NULLS
        ) OVER (
            PARTITION BY id ORDER BY time_ns, node, sequence
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS b
    FROM short
),

-- Of what was refused since then, the largest per member.
refused AS (
    SELECT id, b.node, b.sequence, member_id, max("offset") AS "offset"
    FROM followed
    WHERE NOT is_accepted AND b IS NOT NULL
    GROUP BY ALL
),

again AS (
    SELECT
        a.id, a.time_ns, a.node, a.sequence, a.member_id, 'refused' AS why,
        least(any_value(a.offset), max(f.offset)) - any_value(a.b.offset) AS records
    FROM followed AS a
    JOIN refused AS f
        ON
            a.id = f.id
            AND a.b.node = f.node
            AND a.b.sequence = f.sequence
            AND a.member_id IS DISTINCT FROM f.member_id
    WHERE a.is_accepted
    GROUP BY ALL
    UNION ALL
    SELECT id, time_ns, node, sequence, member_id, 'rewound', b.offset - "offset"
    FROM followed
    WHERE is_accepted AND member_id <> ''
)

SELECT
    run, "group", topic, "partition", time_ns, node, sequence, member_id, why, records
FROM again
JOIN part.partitions USING (id)
WHERE records > 0
