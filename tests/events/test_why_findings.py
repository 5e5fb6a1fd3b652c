"""Findings: as JSON, in the documents, and none for a quiet group."""

from __future__ import annotations

import re
from pathlib import Path

from tests.events.findings import findings, quiet

from kohort.control.why import history


def test_a_quiet_group_has_no_findings() -> None:
    """One start, and nothing else."""
    assert findings(quiet("ana", "ben", "cleo")) == {}


def test_a_finding_is_json() -> None:
    """Programs get all of it."""
    stream = quiet("ana", "ben")
    stream.say("commit_refused", error="UNKNOWN_MEMBER_ID", offsets=[])
    (told,) = history(stream.events, "g").as_json()["findings"]
    assert told["code"] == "commit-from-outside"
    assert told["is_sure"] is True
    assert told["evidence"] == [
        {
            "time_ns": stream.now,
            "text": "a client: UNKNOWN_MEMBER_ID",
            "sequence": len(stream.events),
            "generation": 1,
        }
    ]


def test_every_finding_is_documented() -> None:
    """docs/reference/why.md lists exactly the codes of the rules."""
    root = Path(__file__).parent.parent.parent
    rules = (root / "broker" / "events" / "findings" / "rules").glob("*.py")
    codes = {
        code
        for path in rules
        for code in re.findall(r'(?:Finding|_OfSkip)\(\s*"([a-z-]+)"', path.read_text())
    }
    table = (root / "docs" / "reference" / "why.md").read_text().split("## Findings")[1]
    assert {*re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)} == codes
