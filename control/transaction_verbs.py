"""The verbs on a transactional id, declared once.

`kohort.control.transaction.Transaction` performs them.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from kohort.control.power import PowerError
from kohort.control.states import state_named
from kohort.control.verbs import (
    PATIENCE_S,
    CoordinatedVerbs,
    Later,
    Name,
    NodeId,
    Patience,
    condition,
    verb,
)

if TYPE_CHECKING:
    from kohort.broker.transactions import events
    from kohort.broker.transactions import state as states
    from kohort.control import conditions
else:
    events = Later("kohort.broker.transactions.events")
    states = Later("kohort.broker.transactions.state")
    conditions = Later("kohort.control.conditions")


HeldState = Annotated[str, ("PrepareCommit", "PrepareAbort")]
STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)
State = Annotated[str, (*STATES, "Dead")]


class TransactionVerbs(CoordinatedVerbs):
    """Verbs on a transactional id."""

    what = "transaction"
    path = "transactions/{transactional_id}"
    names: ClassVar = {"transactional_id": Name}
    key = "transactional_id"

    def _has_state(self, state: str | None) -> conditions.Awaited:
        """A condition: the id has a state; None: it exists."""
        raise NotImplementedError

    @verb("transaction {transactional_id} has its producer fenced; {now}")
    def fence(self) -> None:
        """Fences the producer of an id; an open transaction is aborted.

        The epoch is raised: the producer's next request fails as if another producer
        with the same ``transactional.id`` had been initialized.

        Raises:
            PowerError: the id is unknown, or its transaction is being ended; or its
                coordinator is loading.
        """
        self._perform(events.FenceProducer)

    @verb("transaction {transactional_id} has timed out; {now}")
    def expire(self) -> None:
        """Aborts the open transaction, as ``transaction.timeout.ms`` does.

        Raises:
            PowerError: no transaction is open, or as for `fence`.
        """
        self._perform(events.ExpireTransaction)

    @verb("transaction {transactional_id} will be held in {held}; {now}")
    def hold(self, state: HeldState = "PrepareCommit") -> None:
        """Holds the next transaction in a state: its markers are not written.

        The id need not exist yet. Another hold replaces this one. A hold lasts until
        `release`; it survives a move of the coordinator.

        Args:
            state: PrepareCommit (the default) or PrepareAbort.

        Raises:
            PowerError: a transaction cannot be held in that state.
        """
        known = state_named(state, states.TransactionState, error=PowerError)
        self._perform(events.HoldTransaction, known)

    @verb("transaction {transactional_id} is released; {now}")
    def release(self) -> None:
        """Ends a hold; the markers that wait are written.

        Also those that wait for transaction.markers.delay.ms, or for a leader.

        Raises:
            PowerError: the transaction is not held, and not being ended.
        """
        self._perform(events.ReleaseTransaction)

    @verb("node {coordinator} coordinates transaction {transactional_id}")
    def move(self, node: NodeId | None = None) -> int:
        """Makes another node the coordinator of a transactional id.

        All ids in the same partition of __transaction_state move with it.

        Args:
            node: the id of the node; by default the next running node.

        Returns:
            The node's id.

        Raises:
            PowerError: the node is unknown or stopped, or no other node is running.
        """
        return self._move(node)

    # -- conditions

    @condition
    def until(
        self, *, state: State | None = None, timeout: Patience | None = PATIENCE_S
    ) -> Coroutine[Any, Any, None]:
        """Waits until the id is in a state; by default, until it exists.

        The state is checked at once, and then with each change. The id need not exist
        yet.

        Args:
            state: the id is in this state.
            timeout: seconds of real time to wait.

        Raises:
            ConditionTimeout: has the current state.
            BrokerStoppedError: the broker has stopped, or stops meanwhile.
            ValueError: the state is unknown.
        """
        return conditions.wait(self._has_state(state), timeout)
