WITH counted AS (
    SELECT
        run, "group", topic, "partition", time_ns, node, sequence, member_id,
        "offset", error,
        count(CASE WHEN error IS NULL THEN 1 END) OVER (
            PARTITION BY run, "group", topic, "partition"
            ORDER BY time_ns, node, sequence
            ROWS UNBOUNDED PRECEDING
        ) AS accepted
    FROM silver.commits
),

pairs AS (
    SELECT
        *,
        lag("offset") OVER (
            PARTITION BY run, "group", topic, "partition" ORDER BY accepted
        ) AS b_offset
    FROM counted
    WHERE error IS NULL
),

-- Of what was refused since the accepted row of that number, the largest per member.
refused AS (
    SELECT
        run, "group", topic, "partition", accepted, member_id,
        max("offset") AS "offset"
    FROM counted
    WHERE error IS NOT NULL
    GROUP BY ALL
),

again AS (
    SELECT
        a.run, a.group, a.topic, a.partition, a.time_ns, a.node, a.sequence,
        a.member_id, 'refused' AS why,
        least(any_value(a.offset), max(f.offset)) - any_value(a.b_offset) AS records
    FROM pairs AS a
    JOIN refused AS f
        ON
            a.run = f.run
            AND a.group = f.group
            AND a.topic = f.topic
            AND a.partition = f.partition
            AND a.accepted = f.accepted + 1
            AND a.member_id IS DISTINCT FROM f.member_id
    WHERE a.b_offset IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT
        run, "group", topic, "partition", time_ns, node, sequence, member_id,
        'rewound', b_offset - "offset"
    FROM pairs
    WHERE member_id <> ''
)

SELECT
    run, "group", topic, "partition", time_ns, node, sequence, member_id, why, records
FROM again
WHERE records > 0
