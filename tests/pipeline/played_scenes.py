"""Scenes with played groups: scripts, and the same scripts with a setting changed.

A rule should speak about a script if the script, played again with the setting that
the rule is about, has at least a tenth less downtime. So each scene is its own truth:
nothing in it comes from events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Final

from bench.pipeline.lives import Kind
from tests.pipeline.played_groups import Played, Script, Step

WORTH: Final = 0.1
"""The least share of the downtime that a change has to save."""

EAGER: Final = Kind("app", 6, 24, 60.0)
COOPERATIVE: Final = replace(EAGER, protocol="cooperative-sticky")
STATIC: Final = replace(EAGER, is_static=True, session_ms=30_000)
UNIFORM: Final = replace(EAGER, protocol="uniform")


def rolling(away: float) -> list[Step]:
    """The members restart one after another, 60 s apart, each in `away` s."""
    starts = [100.0 + 60 * number for number in range(6)]
    return restarts("stop", zip(starts, range(6), strict=True), away)


def looping() -> list[Step]:
    """One process crashes eight times, and is back after 5 s each time."""
    return restarts("crash", ((100.0 + 40 * time, 0) for time in range(8)), 5)


def restarts(how: str, moments: Iterable[tuple[float, int]], away: float) -> list[Step]:
    """Processes that stop or crash at these moments, and start again."""
    return [
        step
        for at, who in moments
        for step in ((at, how, who), (at + away, "start", who))
    ]


def each(
    what: str, times: int, who: int | None = None, apart: float = 60
) -> list[Step]:
    """The same incident a number of times; None: with another client each time."""
    return [
        (100 + apart * time, what, time if who is None else who)
        for time in range(times)
    ]


MOVES: Final[list[Step]] = [(100, "move", None), (300, "move", None)]
LONG: Final = 45_000
SCRIPTS: Final[dict[str, Script]] = {
    "a rolling restart, eager": Script(EAGER, rolling(5)),
    "a rolling restart, cooperative": Script(COOPERATIVE, rolling(5)),
    "a deploy with a slow start, eager": Script(EAGER, rolling(50)),
    "a deploy with a slow start, cooperative": Script(COOPERATIVE, rolling(50)),
    "static restarts": Script(STATIC, rolling(5)),
    "two clients with different assignors": Script(
        EAGER, rolling(5), more={0: ("cooperative-sticky",)}
    ),
    "a crash loop, eager": Script(EAGER, looping()),
    "a crash loop, cooperative": Script(COOPERATIVE, looping()),
    "a slow poller, eager": Script(EAGER, each("overrun", 5, 2)),
    "a slow poller, cooperative": Script(COOPERATIVE, each("overrun", 5, 2)),
    "a slow poller, once": Script(COOPERATIVE, each("overrun", 1, 2)),
    "leftovers of KIP-394": Script(COOPERATIVE, each("ghost", 6)),
    "a coordinator that moves": Script(COOPERATIVE, MOVES),
    "a start, without a delay": Script(replace(EAGER, delay_ms=0), start_s=2),
    "a start, with a delay": Script(EAGER, start_s=2),
    "crashes, long session": Script(
        replace(COOPERATIVE, session_ms=LONG), each("crash", 4)
    ),
    "crashes, short session": Script(COOPERATIVE, each("crash", 4)),
    "two crashes": Script(replace(COOPERATIVE, session_ms=LONG), each("crash", 2)),
    "killed at the end": Script(
        replace(COOPERATIVE, session_ms=LONG), each("crash", 6, apart=0.5)
    ),
    "an assignment that is never fetched": Script(
        COOPERATIVE, [(100, "stop", 5), (150, "doomed", 5), (250, "start", 5)]
    ),
    "members that hang": Script(COOPERATIVE, each("hang", 5)),
    "slow to rejoin": Script(EAGER, rolling(5), slow={3: 8.0}),
    "a rolling restart, consumer": Script(UNIFORM, rolling(5), is_consumer_group=True),
    "static restarts, consumer": Script(
        replace(UNIFORM, is_static=True), rolling(5), is_consumer_group=True
    ),
    "a crash loop, consumer": Script(UNIFORM, looping(), is_consumer_group=True),
    "a slow poller, consumer": Script(
        UNIFORM, each("overrun", 5, 2), is_consumer_group=True
    ),
}
"""Scripts by name."""


# -- the same with a setting changed


def _static(script: Script) -> Script | None:
    stopped = {who for _, what, who in script.steps if what in {"stop", "crash"}}
    started = {who for _, what, who in script.steps if what == "start"}
    if script.kind.is_static or not stopped & started or _mended(script) is not None:
        return None
    away = max(
        end - at
        for at, what, who in script.steps
        for end, how, other in script.steps
        if what == "stop" and how == "start" and who == other
    )
    session_ms = max(script.kind.session_ms, round(away * 1500))
    kind = replace(script.kind, is_static=True, session_ms=session_ms)
    return replace(script, kind=kind)


def _mended(script: Script) -> Script | None:
    """A process that crashed and started more than twice crashes no more."""
    crashed = [who for _, what, who in script.steps if what == "crash"]
    if not any(crashed.count(who) > 2 for who in crashed):
        return None
    return replace(script, steps=())


def _cooperative(script: Script) -> Script | None:
    if script.kind.protocol == COOPERATIVE.protocol or script.is_consumer_group:
        return None
    return replace(
        script, kind=replace(script.kind, protocol=COOPERATIVE.protocol), more={}
    )


def _delayed(script: Script) -> Script | None:
    if script.kind.delay_ms:
        return None
    return replace(script, kind=replace(script.kind, delay_ms=3_000))


def _session(script: Script, session_ms: int) -> Script:
    return replace(script, kind=replace(script.kind, session_ms=session_ms))


def _shorter(script: Script) -> Script | None:
    crashed = {who for _, what, who in script.steps if what == "crash"}
    is_end = len(crashed) == script.kind.members  # nobody is left to read instead
    is_long = script.kind.session_ms > 15_000 and not script.kind.is_static
    return _session(script, 15_000) if is_long and not is_end else None


def _longer(script: Script) -> Script | None:
    hangs = any(what == "hang" for _, what, _ in script.steps)
    return _session(script, 30_000) if hangs else None


def _polling(script: Script) -> Script | None:
    steps = [step for step in script.steps if step[1] != "overrun"]
    return replace(script, steps=steps) if len(steps) < len(script.steps) else None


def _quick(script: Script) -> Script | None:
    return (
        replace(script, slow=dict.fromkeys(script.slow, 5.0)) if script.slow else None
    )


CHANGES: Final[dict[str, Callable[[Script], Script | None]]] = {
    "crash-loop": _mended,
    "rolling-restart": _static,
    "session-too-short": _longer,
    "crashed": _shorter,
    "eager-for-nothing": _cooperative,
    "max-poll-interval": _polling,
    "slow-to-rejoin": _quick,
    "many-initial-rebalances": _delayed,
}
"""By finding: a script with its setting changed; None: it is that already."""


@cache
def played(name: str) -> Played:
    """A script, played to its end."""
    made = Played(SCRIPTS[name])
    made.play()
    return made


@cache
def wanted(name: str) -> frozenset[str]:
    """The rules that should speak about a script."""
    before = played(name).downtime_s
    rules = set()
    for rule, change in CHANGES.items():
        changed = change(SCRIPTS[name])
        if changed is not None:
            again = Played(changed)
            again.play()
            if again.downtime_s <= before * (1 - WORTH):
                rules.add(rule)
    return frozenset(rules)
