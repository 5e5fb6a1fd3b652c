"""Functions that decide about single requests: see `Faults.on`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kohort.broker.faults.facts import Facts
from kohort.broker.faults.rule import FaultError, Name, Rule
from kohort.protocol.slotted import replace

Change = Callable[[Any], Any]
"""Takes a response, and returns the one that is sent in its place."""
_GENERATIONS = ("generation_id", "generation_id_or_member_epoch")


class Strike(NamedTuple):
    """The fields of the event about a fault that struck a request or a connection.

    Attributes:
        cause: see `words.FAULT_EFFECTS`.
        fault_id, fault: the number of the rule or the function, and its name.
        error: the error that is answered.
    """

    cause: str
    fault_id: int
    fault: str
    error: str | None = None


def strike_of(rule: Rule) -> Strike:
    """The strike of a rule."""
    cause = rule.effect.removesuffix("_ms")
    if rule.disconnect is not None:
        cause = f"disconnect_{rule.disconnect}"
    return Strike(cause, rule.id, rule.label, rule.error)


class Function:
    """A function that is called with each request of some APIs.

    Attributes:
        id: its number in the plan; rules and functions are numbered together.
        api: the names of the APIs.
        calls: how often it was called.
    """

    __slots__ = ("api", "calls", "function", "id")

    def __init__(
        self, number: int, api: tuple[str, ...], function: Callable[[Any], object]
    ) -> None:
        self.id = number
        self.api = api
        self.function = function
        self.calls = 0

    def __repr__(self) -> str:
        """Its APIs, and its calls."""
        calls = f"called {self.calls} times" if self.calls else "never called"
        return f"on({', '.join(self.api)}): {calls}"


class Intercepted:
    """A client's request, before the broker handles it.

    A function that does nothing lets it pass. `fail`, `answer`, `drop` and `disconnect`
    take the broker's place, so the request has no effect; `change` lets the broker
    handle it. One of these may be called; `delay` goes with each that sends a response.

    Attributes:
        api, version: the API's name, and the version of the request.
        client_id: the sender's id.
        connection: the number of its connection.
        node: the id of the node that has received it.
        group, transactional_id, member_id, instance_id: those that it names; None if
            it names none, or several.
        generation: the generation id; None if it has none.
        message: the decoded request.

    Raises:
        FaultError: of the methods: a value is invalid, or there is a decision already.
    """

    def __init__(self, facts: Facts, function: Function) -> None:
        request = facts.request
        self.api = request.api.name
        self.version = request.version
        self.client_id = request.client.id
        self.connection = request.client.connection
        self.node = request.node.id
        self.group = facts.group
        self.transactional_id = facts.transactional_id
        self.member_id = facts.member_id
        self.instance_id = facts.instance_id
        self.message = request.message
        found = (getattr(self.message, name, None) for name in _GENERATIONS)
        self.generation: int | None = next((n for n in found if n is not None), None)
        self._response_class: Any = request.api.response_class
        self._id = function.id
        self._name = f"on({', '.join(function.api)})"
        # What was decided: rules, or an answer, or a change.
        self.rules: list[Rule] = []
        self.response: Any = None
        self.changes: Change | None = None
        self._decision = ""

    @property
    def passes(self) -> bool:
        """True if nothing was decided."""
        return not (self._decision or self.rules)

    @property
    def strikes(self) -> list[Strike]:
        """The decisions, as events have them."""
        found = [strike_of(rule)._replace(fault_id=self._id) for rule in self.rules]
        if self._decision in {"answer", "change"}:
            found.append(Strike(self._decision, self._id, self._name))
        return found

    def fail(self, error: str) -> None:
        """Answers with an error, by its name in Kafka."""
        rule = Rule(name=self._name, api=self.api, error=error)
        self._decide("fail")
        self.rules.append(rule)

    def answer(self, response: Any) -> None:
        """Answers with a message of the API's response."""
        self._check(response)
        self._decide("answer")
        self.response = response

    def change(self, change: Change | None = None, /, **fields: Any) -> None:
        """Changes the broker's response.

        Args:
            change: takes the response, and returns another one.
            fields: or the fields that get other values.
        """
        known = Name(self._response_class.__match_args__)
        for name in fields:
            known.check("change", name)
        self._decide("change")

        def changed(response: Any) -> Any:
            if fields:
                response = replace(response, **fields)
            found = response if change is None else change(response)
            self._check(found)
            return found

        self.changes = changed

    def delay(self, seconds: float) -> None:
        """Delays the response."""
        delay_ms = seconds * 1000
        self.rules.append(Rule(name=self._name, api=self.api, delay_ms=delay_ms))

    def drop(self) -> None:
        """Sends no response; later requests of the connection wait until it closes."""
        self._decide("drop")
        self.rules = [Rule(name=self._name, api=self.api, swallow=True)]

    def disconnect(self) -> None:
        """Closes the connection."""
        self._decide("disconnect")
        self.rules = [Rule(name=self._name, api=self.api, disconnect="before")]

    def _decide(self, decision: str) -> None:
        if self._decision:
            raise FaultError(f"{decision}: the function called {self._decision} before")
        self._decision = decision

    def _check(self, response: Any) -> None:
        expected = self._response_class
        if not isinstance(response, expected):
            raise FaultError(
                f"the response to {self.api} is a {expected.__name__}, not a"
                f" {type(response).__name__}"
            )
