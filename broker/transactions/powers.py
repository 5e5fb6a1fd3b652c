"""Power over transactions: commands of tests and operators.

A command ends in the same functions as the request that it stands for.
"""

from __future__ import annotations

from kohort.broker.runtime.effects import CommandResult
from kohort.broker.transactions import ending, initialize
from kohort.broker.transactions.events import (
    Command,
    ExpireTransaction,
    FenceProducer,
    HoldTransaction,
    ReleaseTransaction,
)
from kohort.broker.transactions.state import (
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
)
from kohort.broker.transactions.transaction_metadata import TransactionMetadata
from kohort.broker.transactions.turn import Turn

HOLDABLE = (PREPARE_COMMIT, PREPARE_ABORT)
"""States in which a transaction can be held."""

_DONE = CommandResult()


def _refuse(turn: Turn, event: Command, why: str) -> None:
    turn.reply(event.token, CommandResult(why))


def fence(
    turn: Turn, transactions: dict[str, TransactionMetadata], event: FenceProducer
) -> None:
    """Raises the epoch, as another producer's InitProducerId does."""
    found = _idle(turn, transactions, event)
    if found is None:
        return
    if found.state is not ONGOING:
        done = initialize.raise_epoch(turn, found, "operator", event.token, _DONE)
    else:
        done = ending.fence(turn, found, "operator", event.token, _DONE, is_final=True)
    if not done:
        _refuse(turn, event, "there is no producer id to go on with")


def expire(
    turn: Turn, transactions: dict[str, TransactionMetadata], event: ExpireTransaction
) -> None:
    """Aborts an open transaction as its timeout does."""
    found = _idle(turn, transactions, event)
    if found is None:
        return
    if found.state is not ONGOING:
        _refuse(turn, event, f"the transaction is not open: it is {found.state}")
    elif not ending.fence(turn, found, "timeout", event.token, _DONE):
        _refuse(turn, event, "there is no producer id to go on with")


def _idle(
    turn: Turn,
    transactions: dict[str, TransactionMetadata],
    event: FenceProducer | ExpireTransaction,
) -> TransactionMetadata | None:
    """Returns the transaction of a command; refuses it if there is none, or busy."""
    found = transactions.get(event.transactional_id)
    if found is None:
        _refuse(turn, event, f"there is no transactional id {event.transactional_id!r}")
        return None
    if found.is_busy:
        state = found.state
        _refuse(
            turn, event, f"the transaction is being ended or changed: it is {state}"
        )
        return None
    return found


def hold(turn: Turn, _: dict[str, TransactionMetadata], event: HoldTransaction) -> None:
    """Writes no markers once the transaction is in this state.

    The id need not exist yet. A transaction that is in this state already keeps the
    markers that it has.
    """
    if event.state not in HOLDABLE:
        states = " or ".join(HOLDABLE)
        why = f"a transaction can be held in {states}, not in {event.state}"
        _refuse(turn, event, why)
        return
    turn.holds[event.transactional_id] = event.state
    turn.reply(event.token, _DONE)


def release(
    turn: Turn, transactions: dict[str, TransactionMetadata], event: ReleaseTransaction
) -> None:
    """Ends a hold, and writes the markers that wait, for whatever reason."""
    state = turn.holds.pop(event.transactional_id, None)
    found = transactions.get(event.transactional_id)
    waits = found is not None and found.state in PREPARED
    if state is None and not waits:
        _refuse(turn, event, "the transaction is not held")
        return
    if found is not None:
        ending.write_due(turn, found)
    turn.reply(event.token, _DONE)
