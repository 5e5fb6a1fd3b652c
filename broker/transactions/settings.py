"""Transaction coordinator settings."""

from __future__ import annotations

from kohort.protocol.slotted import slotted


@slotted
class TransactionSettings:
    """Settings of the transaction coordinator, with Apache Kafka's defaults."""

    max_timeout_ms: int = 900_000
    """``transaction.max.timeout.ms``"""
    abort_interval_ms: int = 10_000
    """``transaction.abort.timed.out.transaction.cleanup.interval.ms``"""
    expiration_ms: int = 7 * 24 * 60 * 60 * 1_000
    """``transactional.id.expiration.ms``"""
    expiration_interval_ms: int = 3_600_000
    """``transaction.remove.expired.transaction.cleanup.interval.ms``"""
    markers_delay_ms: int = -1
    """``transaction.markers.delay.ms``; -1: until the next turn of the event loop."""

    @property
    def has_windows(self) -> bool:
        """True if requests that arrive together may find the id busy."""
        return self.markers_delay_ms != 0

    def allows_timeout(self, timeout_ms: int) -> bool:
        """Returns whether a producer may have this transaction timeout."""
        return 0 < timeout_ms <= self.max_timeout_ms
