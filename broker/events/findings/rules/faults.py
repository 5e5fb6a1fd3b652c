"""Findings about faults: rules of the plan that struck a group's members."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.broker.events.findings.facts import Facts
from kohort.broker.events.findings.faults import phrases
from kohort.broker.events.findings.finding import Evidence, Finding
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.words import many


def faults_struck(facts: Facts, names: Names) -> Iterator[Finding]:
    """Members that faults struck: other findings may be a result."""
    if not facts.strikes:
        return
    rules = {strike.fault_id for strike in facts.strikes}
    yield Finding(
        "faults-struck",
        f"{many(len(rules), 'fault rule')} struck members of this group "
        f"{many(len(facts.strikes), 'time')}",
        "A test or a fault plan did that (broker.faults, POST /v1/faults, --faults). "
        "Other findings may be a consequence.",
        tuple(
            Evidence(first.at_ns, text, first.sequence)
            for first, text in phrases(facts.strikes, names)
        ),
    )
