"""Jitter in all brokers of the tests: ``KOHORT_JITTER=SEED:MS``.

Tests that pass only with immediate responses are flaky on a busy machine. With this
setting, brokers that tests start in their own process delay what connections send and
receive, each with a different scale of up to MS milliseconds.
"""

from __future__ import annotations

from kohort.broker.server import Broker


def set_up(spec: str | None) -> None:
    """Gives each broker that starts from now on a rule with jitter.

    Args:
        spec: the seed and the longest delay in ms, as in ``1:20``; None for no jitter.
    """
    if not spec:
        return
    seed, up_to_ms = spec.split(":")
    start = Broker.start

    async def start_with_jitter(broker: Broker) -> None:
        await start(broker)
        broker.faults.jitter(int(seed), float(up_to_ms), name="tests")

    Broker.start = start_with_jitter  # type: ignore[assignment, method-assign]
