"""Other protocols that reach the Kafka port, by the first four bytes they send."""

from __future__ import annotations

TLS_HANDSHAKE = 0x16, 0x03
"""Type and major version of the first record that a TLS client sends."""
_METHODS = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN"})


def protocol_of(size: int) -> str:
    """Names the protocol of a sender by its first four bytes; "" if unknown.

    Args:
        size: these bytes as a frame's size.
    """
    start = size.to_bytes(4, signed=True)
    if tuple(start[:2]) == TLS_HANDSHAKE:
        return "TLS on a plaintext port; set security.protocol=PLAINTEXT"
    if start in _METHODS:
        return "HTTP on the Kafka port; the HTTP port is that of --http"
    return ""
