"""Explanations of settings that a client does not have."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kohort.client.security import OTHER_NAMES

_ELSEWHERE = {
    **OTHER_NAMES,
    "api_version": "versions are negotiated with each broker",
    "consumer_timeout_ms": "getmany and poll take timeout_ms",
    "loop": "a client runs on the event loop that starts it",
    "max_batch_size": "the setting is batch_size",
    "metadata_broker_list": "the setting is bootstrap_servers",
    "rebalance_timeout_ms": "max_poll_interval_ms is the rebalance timeout",
}
"""Settings of other clients, with underscores, and the way to do it here."""
_BROKERS = frozenset(
    {
        "auto_create_topics_enable",
        "group_initial_rebalance_delay_ms",
        "group_max_session_timeout_ms",
        "group_max_size",
        "group_min_session_timeout_ms",
        "num_partitions",
        "offsets_retention_minutes",
    }
)


def explain(key: str, owner: str, settings: Mapping[str, Collection[str]]) -> str:
    """Says that a client has no such setting, and what may have been meant.

    Args:
        key: the setting that was given, with underscores or dots.
        owner: the kind of client that it was given to.
        settings: the names of the settings of each kind of client.
    """
    name = key.replace(".", "_")
    if name in _ELSEWHERE:
        return f"{key}: {_ELSEWHERE[name]}"
    if name.startswith("ssl_"):
        return f"{key}: ssl_context takes an ssl.SSLContext for all of TLS"
    said = f"{key}: {owner}s have no such setting"
    for other, names in settings.items():
        if name in names:
            return f"{said}; {other}s have"
    if name in _BROKERS:
        return f"{key}: this is a broker's setting"
    import difflib

    close = difflib.get_close_matches(name.lower(), settings[owner], 1, 0.75)
    if not close:
        return said
    meant = close[0].replace("_", ".") if "." in key else close[0]
    return f"{said}; did you mean {meant}?"
