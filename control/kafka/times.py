"""Points in time and durations, in the forms that users write."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_ISO_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII
)
_SHORT_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_UNITS_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def duration_ms(text: str) -> int:
    """The milliseconds of "90s", "1.5h", or "P1DT2H" as Kafka's tools take it.

    Raises:
        ValueError: invalid.
    """
    short = _SHORT_DURATION.fullmatch(text)
    if short is not None:
        return int(float(short[1]) * _UNITS_MS[short[2]])
    iso = _ISO_DURATION.fullmatch(text)
    if iso is None or not any(iso.groups()):
        raise ValueError(f"{text!r} is not a duration: write 90s, 15m, 2d or P1DT2H")
    parts = [float(part or 0) for part in iso.groups()]
    units = (_UNITS_MS[unit] for unit in ("d", "h", "m", "s"))
    return int(sum(part * unit for part, unit in zip(parts, units, strict=True)))


def time_ms(text: str) -> int:
    """The milliseconds since the epoch of a point in time.

    Args:
        text: milliseconds, or as in ISO 8601; in UTC, as Kafka's tools take it,
            unless it says something else.

    Raises:
        ValueError: invalid.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time like 2026-01-31T12:00:00 (UTC), "
            "2026-01-31T12:00:00+01:00 or milliseconds since 1970"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    since = (found - _EPOCH) // timedelta(milliseconds=1)
    if since < 0:
        raise ValueError(f"{text!r} is before 1970")
    return since


def shown_time(ms: int) -> str:
    """A time as ISO 8601 in UTC; "" for none, the number if it is out of range."""
    if ms < 0:
        return ""
    try:
        found = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
