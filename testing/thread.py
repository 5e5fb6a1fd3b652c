"""The thread of a test's broker."""

from __future__ import annotations

from kohort.broker.server import Broker
from kohort.broker.thread import LoopThread


class BrokerThread(LoopThread):
    """Runs a broker until `stop`; one of a ``with`` block runs on.

    Args:
        broker: the broker, not started yet, or started by ``with``.

    Attributes:
        broker: the broker; only functions given to `call` and `submit` may use it.
    """

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.broker = broker

    def start(self) -> None:
        """Starts the broker, unless it runs.

        Raises:
            RuntimeError: it runs on an event loop of the program.
        """
        if self.broker.thread is not None:
            self.join(self.broker.thread)
        elif self.broker.is_running:
            raise RuntimeError(
                "the broker runs on an event loop of the program, so call its own"
                " methods; a Kohort takes one that is not started, or of a `with` block"
            )
        else:
            super().start()
