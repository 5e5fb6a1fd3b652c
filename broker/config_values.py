"""Values of configuration keys: from text to Python's types and back, as in Kafka."""

from __future__ import annotations

import math
import re

from kohort.broker.config_keys import Key

Value = bool | int | float | str | tuple[str, ...] | None

TYPE_NUMBERS = {
    "unknown": 0,
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
"""The types of values as DescribeConfigs numbers them (KIP-569)."""

_BITS = {"short": 16, "int": 32, "long": 64}
_INTEGER = re.compile(r"[+-]?[0-9]+")


def parse(key: Key, text: str) -> Value:
    """Converts text to a value in Python's type, as Kafka's ConfigDef does.

    Raises:
        ValueError: invalid; the message lists the valid values.
    """
    if key.sensitive:
        return text
    text = text.strip()
    if key.type == "boolean":
        if text.lower() not in {"true", "false"}:
            raise ValueError("must be true or false")
        return text.lower() == "true"
    if key.type in _BITS:
        return _ranged(key, _whole(text, _BITS[key.type]))
    if key.type == "double":
        return _ranged(key, _real(text))
    if key.type == "list":
        items = tuple(re.split(r"\s*,\s*", text)) if text else ()
        if "" in items:
            raise ValueError("an element is empty")
        if not key.name.endswith(".throttled.replicas"):
            items = tuple(dict.fromkeys(items))
        return tuple(_chosen(key, item) for item in items)
    return _chosen(key, text)


def _whole(text: str, bits: int) -> int:
    # Longer numbers are out of range, and slow to convert.
    if _INTEGER.fullmatch(text) and len(text) <= 25:
        number = int(text)
        if -(1 << bits - 1) <= number < 1 << bits - 1:
            return number
    raise ValueError(f"must be a whole number of {bits} bits")


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("must be a number") from None


def to_text(value: object) -> str | None:
    """Converts a value to text, as Kafka writes it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return ",".join(str(to_text(item)) for item in value)
    return _java_double(value) if isinstance(value, float) else str(value)


def _java_double(number: float) -> str:
    """A number as Java's Double.toString writes it."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return str(number)
    from decimal import Decimal

    sign, digits, _ = Decimal(repr(number)).normalize().as_tuple()
    exponent = Decimal(repr(number)).adjusted()
    first, *rest = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{exponent}"


def _ranged(key: Key, number: float) -> float:
    """Returns the number if it is in the key's range; else raises ValueError."""
    allowed, _, exception = key.allowed.partition("|")
    low, dots, high = allowed.partition("..")
    if not dots or (exception and number == int(exception)):
        return number
    other = f" or {exception}" if exception else ""
    if high and not float(low) <= number <= float(high):
        raise ValueError(f"must be {low} to {high}{other}")
    if not high and number < int(low):
        raise ValueError(f"must be at least {low}{other}")
    return number


def _chosen(key: Key, text: str) -> str:
    """Returns the text if the key allows it; else raises ValueError."""
    if key.allowed == "nonempty" and not text:
        raise ValueError("must not be empty")
    if key.allowed in {"*", "nonempty"}:
        return text
    choices = key.allowed.removeprefix("~").split("|")
    found = text.upper() if key.allowed.startswith("~") else text
    if found not in choices:
        raise ValueError(f"must be one of {', '.join(choices)}")
    return text
