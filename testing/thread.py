"""The thread of a test's broker."""

from __future__ import annotations

from kohort.broker.server import Broker
from kohort.broker.thread import LoopThread


class BrokerThread(LoopThread):
    """Runs a broker until `stop`.

    Args:
        broker: the broker, not started yet.

    Attributes:
        broker: the broker; only functions given to `call` and `submit` may use it.
    """

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.broker = broker
