"""JoinGroup: Kafka's quirks, which no broker should imitate."""

from __future__ import annotations

from tests.conformance.env import Env
from tests.conformance.member import meta

QUIRK = True


async def join_repeated_protocol_name(env: Env) -> None:
    """The same protocol name twice in one request."""
    a = await env.member(
        "A",
        join_version=3,
        protocols=[
            {"name": "p", "metadata": meta("first")},
            {"name": "p", "metadata": meta("second")},
        ],
    )
    joining = await a.send_join()
    await joining.unanswered(2.0)
    await env.describe(await env.peer("other"))
