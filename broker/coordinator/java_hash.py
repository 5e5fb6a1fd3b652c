"""Java's hash of strings: Kafka places groups, and breaks ties of protocols, by it."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: an int32 of the text's UTF-16 code units."""
    code = 0
    if text.isascii():
        for byte in text.encode():
            code = 31 * code + byte & 0xFFFFFFFF
    else:
        units = memoryview(text.encode("utf-16-be", "surrogatepass"))
        for i in range(0, len(units), 2):
            code = 31 * code + (units[i] << 8 | units[i + 1]) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code
