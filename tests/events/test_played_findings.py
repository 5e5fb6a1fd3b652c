"""Findings about played groups: they advise what helps, and say how much it saves.

Each script is played again with the one change that a finding advises. The downtime of
both plays, by the clock of the script, is the truth that findings are compared with.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from bench.pipeline import lives
from bench.pipeline.lives import Kind
from tests.pipeline.played_groups import Played, Script, Step
from tests.pipeline.played_scenes import (
    CHANGES,
    COOPERATIVE,
    EAGER,
    SCRIPTS,
    WORTH,
    played,
    restarts,
    rolling,
    wanted,
)

from kohort.control.why import Finding, history

pytestmark = pytest.mark.long
PAGE = Path(__file__).parents[2] / "docs/reference/why.md"
SOMETHING = ("session-too-short", "crashed", "rolling-restart")
"""Findings that advise a setting only where it helps."""


@cache
def advised(name: str) -> dict[str, Finding]:
    """By code, the findings about a script that advise what its changes change."""
    found = history(played(name).events(name, "g"), "g").findings
    return {
        each.code: each
        for each in found
        if each.code in CHANGES
        and (each.code not in SOMETHING or each.setting is not None)
    }


def table() -> list[str]:
    """The lines of the page's table: by code, scripts and what was advised for them."""
    lines = [
        "| finding | needed | found | missed | wrong | precision | recall |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for code in CHANGES:
        found: Counter[tuple[bool, bool]] = Counter(
            (code in wanted(name), code in advised(name)) for name in SCRIPTS
        )
        right, silent, wrong = found[True, True], found[True, False], found[False, True]
        lines.append(
            f"| `{code}` | {right + silent} | {right} | {silent} | {wrong}"
            f" | {_share(right, wrong)} | {_share(right, silent)} |"
        )
    return lines


def _share(right: int, others: int) -> str:
    return f"{right / (right + others):.0%}" if right + others else "-"


def misleading(name: str) -> list[str]:
    """Advice about a script that does not help, or whose saving is far off.

    A rejoin is no restart, an end no departure, and a slow restart is not static. A
    saving is right from half to one and a half times of what the second play saves.
    """
    wrong = [f"{name}: {code}" for code in advised(name).keys() - wanted(name)]
    for code, finding in advised(name).items():
        changed = CHANGES[code](SCRIPTS[name])
        assert changed is not None
        if code == "crash-loop" or finding.setting is None:
            continue  # its setting is not the change: the process is mended
        again = Played(changed)
        again.play()
        saved_s = played(name).downtime_s - again.downtime_s
        assert finding.setting.saving_ns is not None
        saving_s = finding.setting.saving_ns / 1e9
        if not saved_s / 2 <= saving_s <= saved_s * 1.5:
            wrong.append(
                f"{name}: {code} saves {saving_s:g} s, {saved_s:g} s if played"
            )
    return wrong


def test_advice_helps_and_the_page_says_how_often() -> None:
    """The table in the docs is the one that the scripts give.

    One test: each of the scripts is played for both.
    """
    assert [each for name in SCRIPTS for each in misleading(name)] == []
    text = PAGE.read_text(encoding="utf-8")
    assert "\n".join(table()) in text, "\n" + "\n".join(table())
    assert f"{len(SCRIPTS)} scripts" in text


def crashes(away_s: float) -> list[Step]:
    """One process crashes eight times."""
    return restarts("crash", ((100.0 + 60 * time, 0) for time in range(8)), away_s)


@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE], ids=lambda kind: kind.protocol)
@pytest.mark.parametrize(
    ("code", "steps", "heartbeat_s"),
    [
        pytest.param("crash-loop", crashes(1), 3, id="a crash loop, back at once"),
        pytest.param("crash-loop", crashes(20), 3, id="... after its session"),
        pytest.param("rolling-restart", rolling(2), 1, id="quick restarts"),
        pytest.param("rolling-restart", rolling(5), 1, id="restarts, 1 s heartbeats"),
        pytest.param("rolling-restart", rolling(10), 1, id="slow restarts"),
    ],
)
def test_static_membership_is_advised_where_it_helps(
    kind: Kind,
    code: str,
    steps: list[Step],
    heartbeat_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both ways are played: partitions of a static member wait while it restarts."""
    monkeypatch.setattr(lives, "HEARTBEAT_S", heartbeat_s)
    dynamic = Played(Script(kind, steps))
    dynamic.play()
    static = Played(Script(replace(kind, is_static=True), steps))
    static.play()
    found = history(dynamic.events("r", "g"), "g").findings
    (finding,) = [each for each in found if each.code == code]
    is_better = static.downtime_s < dynamic.downtime_s * (1 - WORTH)
    assert (finding.setting is not None) == is_better
    words = ("does not help", "Do not make them static")
    assert any(each in finding.advice for each in words) != is_better
