-- Time is counted in slots: 2 n is before rebalance n's assignment, 2 n + 1 after it.
WITH numbered AS (
    SELECT
        run, "group", kind, (time_ns, node, sequence) AS place,
        count(CASE WHEN kind = 'rebalance_started' THEN 1 END) OVER (
            PARTITION BY run, "group" ORDER BY time_ns, node, sequence
            ROWS UNBOUNDED PRECEDING
        ) AS number
    FROM events
    WHERE kind IN ('rebalance_started', 'assignment_made')
),

made AS (
    SELECT run, "group", number, min(place) AS place
    FROM numbered
    WHERE kind = 'assignment_made'
    GROUP BY ALL
),

cuts AS (
    SELECT
        run, "group", number, count(*) FILTER (previous_owner IS NULL) AS first_owned,
        min((from_ns, from_node, from_sequence)) AS place
    FROM silver.ownership
    WHERE began = 'assigned'
    GROUP BY ALL
),

generations AS (
    SELECT
        run, "group", number, started_ns, generation, members,
        max(number) OVER (PARTITION BY run, "group") AS last_number
    FROM silver.rebalances
    WHERE outcome = 'completed'
),

placed AS (
    SELECT
        o.run, o.group, o.topic, o.partition, o.owner,
        o.from_ns, o.from_node, o.from_sequence,
        CASE
            WHEN o.began = 'assigned' THEN 2 * o.number + 1
            WHEN
                (o.from_ns, o.from_node, o.from_sequence)
                < coalesce(cuts.place, made.place)
                THEN 2 * o.number
            ELSE 2 * coalesce(o.number, 0) + 2
        END AS slot
    FROM silver.ownership AS o
    LEFT JOIN cuts
        ON o.run = cuts.run AND o.group = cuts.group AND o.number = cuts.number
    LEFT JOIN made
        ON o.run = made.run AND o.group = made.group AND o.number = made.number
),

held AS (
    SELECT
        placed.*,
        coalesce(
            lead(slot) OVER (
                PARTITION BY run, "group", topic, "partition"
                ORDER BY from_ns, from_node, from_sequence
            ),
            2 * ends.last_number + 2
        ) AS next_slot
    FROM placed
    JOIN (
        SELECT run, "group", max(number) AS last_number FROM generations GROUP BY ALL
    ) AS ends USING (run, "group")
),

owners AS (
    SELECT run, "group", topic, "partition", owner, unnest(range(slot, next_slot)) AS slot
    FROM held
),

states AS (
    SELECT
        run, "group", slot // 2 AS number, topic, "partition",
        any_value(owner) FILTER (slot % 2 = 0) AS before,
        any_value(owner) FILTER (slot % 2 = 1) AS after
    FROM owners
    GROUP BY ALL
),

people AS (
    SELECT DISTINCT g.run, g.group, g.number, coalesce(m.owner, g.member_id) AS owner
    FROM (
        SELECT run, "group", number, unnest(members) AS member_id FROM generations
    ) AS g
    LEFT JOIN silver.memberships AS m
        ON g.run = m.run AND g.group = m.group AND g.member_id = m.member_id
),

kept AS (
    SELECT states.*
    FROM states
    JOIN people
        ON
            states.run = people.run
            AND states.group = people.group
            AND states.number = people.number
            AND states.after = people.owner
),

befores AS (
    SELECT
        kept.run, kept.group, kept.number, count(*) AS n,
        row_number() OVER (
            PARTITION BY kept.run, kept.group, kept.number ORDER BY count(*) DESC
        ) AS k
    FROM kept
    JOIN people
        ON
            kept.run = people.run
            AND kept.group = people.group
            AND kept.number = people.number
            AND kept.before = people.owner
    GROUP BY kept.run, kept.group, kept.number, kept.before
),

afters AS (
    SELECT
        run, "group", number, count(*) AS n,
        row_number() OVER (PARTITION BY run, "group", number ORDER BY count(*) DESC)
            AS k
    FROM kept
    WHERE before IS NOT NULL
    GROUP BY run, "group", number, after
),

stays AS (
    SELECT run, "group", number, sum(least(befores.n, afters.n)) AS n
    FROM befores
    JOIN afters USING (run, "group", number, k)
    GROUP BY ALL
),

counts AS (
    SELECT
        run, "group", number,
        count(*) AS owned,
        count(before) AS p,
        count(*) FILTER (before <> after) AS moved
    FROM kept
    GROUP BY ALL
)

SELECT
    g.run,
    g.group,
    g.number,
    g.started_ns,
    g.generation,
    len(g.members) AS members,
    coalesce(counts.owned, 0) AS owned,
    coalesce(counts.moved, 0) AS moved,
    coalesce(counts.p, 0) - coalesce(stays.n, 0) AS least_moved,
    coalesce(cuts.first_owned, 0) AS first_owned
FROM generations AS g
LEFT JOIN counts
    ON g.run = counts.run AND g.group = counts.group AND g.number = counts.number
LEFT JOIN stays
    ON g.run = stays.run AND g.group = stays.group AND g.number = stays.number
LEFT JOIN cuts
    ON g.run = cuts.run AND g.group = cuts.group AND g.number = cuts.number
