"""Sentences about what the queries found, made of their numbers alone.

They say what was seen, and no more: that members went and came back one after the other
is seen, that somebody deployed is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kohort.pipeline.report import numbers
from kohort.pipeline.report.asking import Answers, Row
from kohort.pipeline.report.markup import Html, join, listed, name
from kohort.pipeline.report.numbers import From

CARDS: Final = 8
"""So many groups are told of in sentences."""
EACH: Final = 3
"""So many of a kind are told of in a sentence."""
AGAIN: Final = 3
"""Who expired so often did it again and again."""
WORTH_S: Final = 1.0
"""Waits are told of that are so long."""
MATTERS: Final = (
    "stand_still_s",
    "crash_idle_s",
    "refused_full",
    "storms",
    "commit_failures",
    "records_reprocessed",
    "interrupted",
)
"""What a group suffers from: the groups that have most of it are told of."""

CAUSES: Final[Mapping[str, str]] = {
    "member_joined": "a new member came",
    "member_left": "a member left",
    "session_expired": "a session expired",
    "metadata_changed": "subscriptions or assignors changed",
    "leader_rejoined": "the leader rejoined",
    "static_member_replaced": "a static member came back",
    "sync_timeout": "members did not fetch their assignment",
    "group_over_max_size": "the group was over group.max.size",
}
WENT: Final[Mapping[str, str]] = {
    "left": "left",
    "expired": "expired",
    "kicked": "was thrown out",
    "removed": "was removed by an admin",
    "replaced": "was replaced",
    "forgotten": "was forgotten by a coordinator that moved",
}


def cause(text: str | None) -> str:
    """A cause in words; one that is not known is as it is."""
    return CAUSES.get(text or "", text or "unknown")


def because(text: str | None) -> Html:
    """The same in a sentence; one that is not known is a name."""
    known = CAUSES.get(text or "")
    return name(text) if known is None else join(known)


def suffering(answers: Answers, most: int = CARDS) -> list[Row]:
    """The groups to tell of, which have the most of what hurts; as in ``groups``."""
    groups = answers["groups"].rows
    rank: dict[str, float] = {}
    for key in MATTERS:
        having = [row for row in groups if (row[key] or 0) > 0]
        _ranked(rank, sorted(having, key=lambda row: -row[key])[:most])
    _ranked(rank, [row for row in answers["lags"] if row["lag_built_max"]][:most])
    chosen = sorted(rank, key=lambda group: -rank[group])[:most]
    return [row for row in groups if row["group"] in chosen]


def _ranked(rank: dict[str, float], rows: Sequence[Row]) -> None:
    """The first ones count most."""
    for place, row in enumerate(rows):
        rank[row["group"]] = rank.get(row["group"], 0.0) + 1.0 / (1 + place)


def overall(answers: Answers) -> Iterator[Html]:
    """What happened, all in all."""
    (row,) = answers["summary"].rows
    said = From("summary")
    if not row["runs"]:
        yield join("There are no runs in these tables: nothing was recorded yet.")
        return
    yield join(
        said.count(row["runs"], "run"),
        " of " if row["runs"] == 1 else " of together ",
        said.seconds(row["covered_s"]),
        ", between ",
        said(numbers.moment(row["first_ns"])),
        " and ",
        said(_until(row)),
        " UTC on the broker's clock: ",
        said.count(row["events"], "event"),
        " of ",
        said.count(row["all_groups"], "group"),
        ".",
    )
    if not row["rebalances"]:
        yield join("No group rebalanced.")
        return
    yield join(
        said.count(row["rebalances"], "rebalance"),
        ": ",
        said.count(row["completed"]),
        " ended with an assignment",
        *_others(row, said),
        ".",
    )
    if row["stand_still_s"]:
        yield join(
            "Members that have to give up everything in a rebalance stood still for ",
            said.member_seconds(row["stand_still_s"]),
            ", ",
            said.share(row["capacity_lost"]),
            " of the ",
            said.member_seconds(row["member_s"]),
            " that members were there.",
        )
    else:
        yield join("No member stood still in a rebalance.")


def _others(row: Row, said: From) -> Iterator[Html]:
    interrupted = row["interrupted"]
    if interrupted:
        count = said.count(interrupted, "was", "were")
        yield join(", ", count, " interrupted by the next one")
    if row["rebalances"] - row["completed"] - interrupted:
        yield join("; all others left an empty group, or were not seen to end")


def _until(row: Row) -> str:
    is_same_day = numbers.day(row["first_ns"]) == numbers.day(row["last_ns"])
    return (numbers.clock if is_same_day else numbers.moment)(row["last_ns"])


def brief(row: Row) -> Html:
    """A group in a line: its name, and what it suffers from."""
    said = From("groups")
    parts: list[Html | str] = []
    if row["stand_still_s"]:
        parts.append(join(said.share(row["capacity_lost"]), " of its capacity lost"))
    if row["crashes"]:
        parts.append(said.count(row["crashes"], "expired session"))
    if row["storms"]:
        parts.append(said.count(row["storms"], "storm"))
    if row["refused_full"]:
        parts.append(
            join(said.count(row["refused_full"], "refusal"), " as it was full")
        )
    if row["commit_failures"]:
        parts.append(said.count(row["commit_failures"], "refused commit"))
    if not parts:
        parts.append(said.count(row["rebalances"], "rebalance"))
    return join(": ", listed(parts))


def of_group(answers: Answers, row: Row) -> Iterator[Html]:
    """All that is to say of one group.

    Args:
        answers: of all queries.
        row: the group's in ``groups``.
    """
    group = row["group"]
    yield from _still(answers, row)
    yield from _restarts(answers, group)
    yield from _storms(answers, group)
    yield from _waits(answers, group)
    yield from _crashes(answers, group)
    yield from _lag(answers, group)
    yield from _commits(answers, row)
    yield from _refused(answers, group)


def _still(answers: Answers, row: Row) -> Iterator[Html]:
    said, why = From("groups"), From("causes")
    rebalances = said.count(row["rebalances"], "rebalance")
    runs = () if row["runs"] == 1 else (" in ", said.count(row["runs"], "run"))
    causes = answers["causes"].of(group=row["group"])
    if row["stand_still_s"]:
        yield join(
            "Its members stood still for ",
            said.member_seconds(row["stand_still_s"]),
            " in ",
            rebalances,
            *runs,
            ", ",
            said.share(row["capacity_lost"]),
            " of its capacity",
            *_from_to(row, said),
            ". The causes: ",
            listed(
                join(
                    because(each["cause"]),
                    " (",
                    why.count(each["rebalances"]),
                    ", ",
                    why.member_seconds(each["stand_still_s"]),
                    ")",
                )
                for each in causes[: EACH + 1]
            ),
            *_more(len(causes) - EACH - 1, "cause", why),
            ".",
        )
    elif row["rebalances"]:
        yield join(
            "Nobody stood still in its ",
            rebalances,
            *runs,
            ". The causes: ",
            listed(
                join(because(each["cause"]), " (", why.count(each["rebalances"]), ")")
                for each in causes[: EACH + 1]
            ),
            *_more(len(causes) - EACH - 1, "cause", why),
            ".",
        )
    yield from _who(answers, row["group"])


def _from_to(row: Row, said: From) -> tuple[Html | str, ...]:
    """How much its runs differ."""
    if row["runs"] == 1 or row["capacity_lost_least"] is None:
        return ()
    least, most = row["capacity_lost_least"], row["capacity_lost_most"]
    return (" (by run: ", said.share(least), " to ", said.share(most), ")")


def _more(left: int, what: str, said: From) -> tuple[Html | str, ...]:
    return (", and ", said.count(left, f"more {what}"), " besides") if left > 0 else ()


def _who(answers: Answers, group: str) -> Iterator[Html]:
    by_name: dict[str | None, int] = {}
    for each in answers["culprits"].of(group=group):
        by_name[each["name"]] = by_name.get(each["name"], 0) + each["rebalances"]
    rows = sorted(by_name.items(), key=lambda item: (-item[1], item[0] or ""))
    if not rows:
        return
    said = From("culprits")
    yield join(
        "The rebalances began with ",
        listed(
            join(name(who), " (", said.count(times), ")")
            for who, times in rows[: EACH + 1]
        ),
        *_more(len(rows) - EACH - 1, "name", said),
        ".",
    )


def _restarts(answers: Answers, group: str) -> Iterator[Html]:
    said, times = From("restarts"), 0
    for row in answers["restarts"].of(group=group):
        if row["how"] not in {"left", "removed"} or times >= EACH:
            continue
        times += 1
        yield join(
            said.count(row["times"], "time", "times"),
            " a member ",
            WENT[row["how"]],
            " and one of the same name came after it, ",
            said.seconds(row["away_p50_s"]),
            " later at the median (",
            said.count(row["names"], "name"),
            ", between ",
            said(numbers.clock(row["first_ns"])),
            " and ",
            said(numbers.clock(row["last_ns"])),
            "): restarts, as far as names tell.",
        )


def _storms(answers: Answers, group: str) -> Iterator[Html]:
    rows = answers["storms"].of(group=group)
    if not rows:
        return
    said, most = From("storms"), rows[0]
    names = most["names"] or []
    yield join(
        said.count(len(rows), "storm"),
        ": " if len(rows) == 1 else "; the largest: ",
        said.count(most["rebalances"], "rebalance"),
        " that started within ",
        said.seconds(most["lasted_s"]),
        ", from ",
        said(numbers.moment(most["from_ns"])),
        " on, because of ",
        listed(name(each) for each in names[: EACH + 1]) if names else "nobody named",
        *_more(len(names) - EACH - 1, "name", said),
        ".",
    )


def _waits(answers: Answers, group: str) -> Iterator[Html]:
    rows = [
        row
        for row in answers["waited_for"].of(group=group)
        if row["waited_max_s"] >= WORTH_S
    ]
    if not rows:
        return
    said = From("waited_for")
    yield join(
        "It waited for ",
        listed(
            join(
                name(row["name"]),
                " (the last in ",
                said.count(row["rebalances"], "join phase"),
                ", ",
                said.seconds(row["waited_s"]),
                " together, ",
                said.seconds(row["waited_max_s"]),
                " at the longest)",
            )
            for row in rows[:EACH]
        ),
        *_more(len(rows) - EACH, "name", said),
        ".",
    )


def _crashes(answers: Answers, group: str) -> Iterator[Html]:
    said = From("crashes")
    rows = answers["crashes"].of(group=group)
    for row in rows[:EACH]:
        times = row["crashes"]
        yield join(
            name(row["name"]),
            " expired ",
            said.count(times, "time"),
            *(
                (
                    " between ",
                    said(numbers.clock(row["first_ns"])),
                    " and ",
                    said(numbers.clock(row["last_ns"])),
                )
                if times > 1
                else (" at ", said(numbers.clock(row["first_ns"])))
            ),
            *((", again and again",) if times / row["runs"] >= AGAIN else ()),
            ": the broker did not hear of it for its session timeout",
            *_of_timeout(row["session_timeout_ms"], said),
            *_idle(row, said),
            ".",
        )
    if len(rows) > EACH:
        more = said.count(len(rows) - EACH, "more name")
        yield join(more, " of this group expired.")


def _of_timeout(session_timeout_ms: int | None, said: From) -> tuple[Html | str, ...]:
    if session_timeout_ms is None:
        return ()
    return (" of ", said.seconds(session_timeout_ms / 1000))


def _idle(row: Row, said: From) -> tuple[Html | str, ...]:
    if row["crash_idle_max_s"] is None:
        return (". No partition of it was seen to go to a new owner then",)
    return (
        ". From its last sign of life to the next owner its partitions were idle for ",
        said(numbers.real(row["crash_idle_s"])),
        " partition-seconds together, ",
        said.seconds(row["crash_idle_max_s"]),
        " at the longest",
    )


def _lag(answers: Answers, group: str) -> Iterator[Html]:
    said = From("lags")
    for row in answers["lags"].of(group=group):
        if not row["lag_built_max"]:
            continue
        yield join(
            "Lag grew in ",
            said.count(row["grown"]),
            " of ",
            said.count(row["rebalances"], "rebalance"),
            " that commits tell of, by ",
            said.count(row["lag_built_p50"], "record"),
            " at the median and ",
            said.count(row["lag_built_max"]),
            " at the most; ",
            *_worked_off(row, said),
            ".",
        )


def _worked_off(row: Row, said: From) -> tuple[Html | str, ...]:
    if not row["worked_off"]:
        return ("in none of them it was worked off before the next one",)
    left = row["grown"] - row["worked_off"]
    return (
        "it was worked off ",
        said.seconds(row["catch_up_p50_s"]),
        " after the end at the median, ",
        said.seconds(row["catch_up_max_s"]),
        " at the longest",
        *(
            (
                ", and ",
                said.count(left, "time"),
                " not at all before the next one began, or the events ended",
            )
            if left
            else ()
        ),
    )


def _commits(answers: Answers, row: Row) -> Iterator[Html]:
    said = From("commit_failures")
    errors = answers["commit_failures"].of(group=row["group"])
    if row["commit_failures"]:
        yield join(
            From("groups").count(row["commit_failures"], "commit"),
            " of ",
            From("groups").count(row["commit_failures"] + row["commits"]),
            " were refused" if row["commit_failures"] > 1 else " was refused",
            *((": ",) if errors else ()),
            *(
                (
                    listed(
                        join(name(each["error"]), " ", said.count(each["commits"]))
                        for each in errors[:EACH]
                    ),
                )
                if errors
                else ()
            ),
            *_more(len(errors) - EACH, "error", said),
            ".",
        )
    twice = From("reprocessed")
    for each in answers["reprocessed"].of(group=row["group"]):
        what = (
            "after commits that were refused"
            if each["why"] == "refused"
            else "as somebody committed less than was committed before"
        )
        yield join(
            "At least ",
            twice.count(each["records"], "record"),
            f" {'was' if each['records'] == 1 else 'were'} processed twice, {what} (",
            twice.count(each["partitions"], "partition"),
            ").",
        )


def _refused(answers: Answers, group: str) -> Iterator[Html]:
    said = From("refused_names")
    rows = answers["refused_names"].of(group=group)
    if not rows:
        return
    total = sum(row["refusals"] for row in rows)
    yield join(
        "It was full (group.max.size): ",
        said.count(total, "refusal"),
        " between ",
        said(numbers.clock(min(row["first_ns"] for row in rows))),
        " and ",
        said(numbers.clock(max(row["last_ns"] for row in rows))),
        ", of ",
        listed(
            join(name(row["name"]), " (", said.count(row["refusals"]), ")")
            for row in rows[: EACH + 1]
        ),
        *_more(len(rows) - EACH - 1, "name", said),
        ".",
    )


def bad_checks(answers: Answers) -> Sequence[Row]:
    """The checks of the data that did not pass, the worst first."""
    return [row for row in answers["quality"] if row["outcome"] != "passed"]


def advice(row: Mapping[str, Any]) -> Html:
    """How sure a suggestion is, in words."""
    said = From("settings")
    sure = row["confidence"] or 0.0
    word = "rather sure" if sure >= 0.7 else "likely" if sure >= 0.4 else "a hint"
    return join(
        f"{word} (",
        said(f"{numbers.real(sure)} of 1"),
        ", from ",
        said.count(row["cases"], "case"),
        *((" in ", said.count(row["runs"], "run")) if row["runs"] > 1 else ()),
        ")",
    )
