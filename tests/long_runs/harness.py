"""A cluster under load: the waits and checks of a run, whatever happens meanwhile.

1. `begin` creates the topic and waits for the clients, which the caller has added to
   `load`.
2. The caller disturbs the cluster. In between it waits until groups have settled
   (`settle`) or commit again (`until_commits`), and checks that no acknowledged commit
   is lost (`lost_commits`).
3. `end` stops the clients, and compares all their responses with the cluster's logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.long_runs import Report, hold, oracle
from tests.long_runs.broker_process import BrokerProcess
from tests.long_runs.cluster_queries import ClusterQueries
from tests.long_runs.described import Described, Members
from tests.long_runs.load import Group, Load, Worker
from tests.long_runs.observations import read_all
from tests.long_runs.witness import Witness


@dataclass(slots=True)
class LoadReport(Report):
    """Result of a run under load.

    Attributes:
        records: acknowledged ones.
        commits: acknowledged ones, each of one partition.
        consumed: records that members got.
    """

    records: int = 0
    commits: int = 0
    consumed: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A Stable group: the state that a restart must not change."""

    generation: int
    protocol: str
    members: Members


class Harness:
    """One cluster, one load.

    Args:
        served: the cluster.
        folder: for the clients' stderr.
        topic: of the load.
        partitions: their number.

    Attributes:
        queries: to the cluster.
        load: the clients.
    """

    def __init__(
        self, served: BrokerProcess, folder: Path, topic: str, partitions: int
    ) -> None:
        self.served = served
        self.topic = topic
        self.partitions = partitions
        self.queries = ClusterQueries(served)
        self.load = Load(folder, self.queries, topic, partitions, served.bootstrap)

    @property
    def witness(self) -> Witness:
        """The responses to the clients."""
        return self.load.witness

    @property
    def names(self) -> list[str]:
        """The groups with members."""
        return self.load.names

    def begin(self) -> None:
        """Waits until all clients are loaded."""
        self.load.until_ready()

    def close(self) -> None:
        """Ends all processes."""
        self.queries.close()
        self.load.close()
        self.served.close()

    # -- waits

    def settle(self) -> dict[str, Snapshot]:
        """Waits until all groups are Stable, with each partition owned once."""
        found = {}
        for group in self.load.groups:

            def settled(group: Group = group) -> Snapshot | None:
                return self._snapshot(group)

            found[group.name] = self.queries.until(f"{group.name} settles", settled)
        return found

    def _snapshot(self, group: Group) -> Snapshot | None:
        """The group's state, if members and broker agree that it is settled.

        The worker's members tell their generation; `strangers` proves that it is the
        broker's, too.
        """
        told = group.worker.tell().values()
        owned = sorted(place for each in told for place in each["partitions"])
        generations = {each["generation"] for each in told}
        # On a busy machine the first client owns everything before others have begun.
        if len(generations) != 1:
            return None
        if owned != list(range(self.partitions)):
            return None
        described = self.describe(group)
        ids = sorted(each["member"] for each in told)
        known = [each[0] for each in described.members]
        if described.state != "Stable" or ids != known:
            return None
        found = Snapshot(generations.pop(), described.protocol, described.members)
        return None if self.strangers(group, found, described) else found

    def describe(self, group: Group) -> Described:
        """The group according to the broker."""
        return self.queries.describe(group.name, is_consumer=group.is_consumer)

    def strangers(
        self, group: Group, wanted: Snapshot, described: Described
    ) -> list[str]:
        """The members that the broker does not know in that generation.

        A description shows the epochs of a consumer group. For a classic group, a
        heartbeat proves the generation of each member.
        """
        if group.is_consumer:
            return [
                f"{group.name}: epoch {epoch}, not {wanted.generation}"
                for epoch in described.epochs - {wanted.generation}
            ]
        return self._heartbeats(group.name, wanted)

    def _heartbeats(self, group: str, wanted: Snapshot) -> list[str]:
        found = []
        for member_id, instance, *_ in wanted.members:
            code = self.queries.heartbeat(group, wanted.generation, member_id, instance)
            if code:
                found.append(
                    f"{group}: a heartbeat of {member_id} in generation "
                    f"{wanted.generation} is answered with error {code}"
                )
        return found

    def unsettle(self, group: Group, number: int) -> None:
        """Makes a dynamic member leave and rejoin; returns once the group rebalances.

        Or has rebalanced: that may be over quickly, but not without a trace.
        """
        before = self.describe(group).members
        group.worker.bounce(number)

        def unsettled() -> bool | None:
            now = self.describe(group)
            return now.state != "Stable" or now.members != before or None

        self.queries.until(f"{group.name} rebalances", unsettled)

    def until_commits(self, names: list[str]) -> None:
        """Waits until each of these groups has another acknowledged commit."""
        before = self.witness.now_committed()

        def committed() -> bool | None:
            for worker in self.load.workers:
                worker.check()
            return all(self.witness.commits[n] > before[n] for n in names) or None

        self.queries.until(f"{', '.join(names)} commit", committed)

    def until_members_commit(self) -> None:
        """Waits until each member with partitions has another acknowledged commit."""
        before = {group.name: _commits_of(group) for group in self.load.groups}
        for group in self.load.groups:

            def commit(group: Group = group) -> bool | None:
                known, now = before[group.name], _commits_of(group)
                return all(now[m] > known.get(m, 0) for m in now) or None

            self.queries.until(f"each member of {group.name} commits", commit)

    # -- checks

    def committed(self, names: Iterable[str]) -> oracle.Committed:
        """Offset and metadata of each of these groups and partition."""
        return {
            (name, place): found
            for name in names
            for place, found in self.queries.committed(
                name, self.topic, range(self.partitions)
            ).items()
        }

    def lost_commits(self) -> list[str]:
        """Commits of members that were acknowledged, and are not there."""
        acked = self.witness.now_acked()
        return oracle.offsets(acked, self.committed(self.names))

    def stop_producers(self) -> dict[str, list[int]]:
        """Stops the producers; waits until groups have committed all of their records.

        Returns:
            The number of records that each has sent to each partition.
        """
        sent = self.load.stop_producers()
        ends = self.queries.ends(self.topic)
        for name in self.names:

            def at_the_end(name: str = name) -> bool | None:
                found = self.committed([name])
                got = [found[name, place][0] for place in range(self.partitions)]
                return got == ends or None

            self.queries.until(f"{name} has committed {ends}", at_the_end)
        return sent

    def stop_members(self) -> None:
        """Makes all members leave, those of a group one after the other."""
        grouped = [group.worker for group in self.load.groups]

        def finish(worker: Worker) -> None:
            worker.finish(together=worker not in grouped)

        with ThreadPoolExecutor(len(self.load.members)) as threads:
            list(threads.map(finish, self.load.members))

    def end(self, sent: dict[str, list[int]], report: LoadReport) -> None:
        """Ends the load and the cluster, and checks everything.

        Args:
            sent: by `stop_producers`.
            report: gets the clients' results.
        """
        witness = self.witness
        report.records = len(witness.produced) + len(witness.unplaced)
        report.commits = sum(witness.commits.values())
        report.consumed = sum(
            poll.count for polls in witness.consumed.values() for poll in polls
        )
        log = read_all(self.served.bootstrap, self.topic, self.queries.ends(self.topic))
        found = oracle.producers(witness, log, sent)
        hold([*found, *oracle.members(witness, log, self.names)])
        code = self.served.stop()
        found = [f"the broker exited {code} on SIGTERM"] if code else []
        hold([*found, *self.served.faults()])


def _commits_of(group: Group) -> dict[str, int]:
    """The acknowledged commits of each member.

    Members without partitions have nothing to commit: with range, a leader of
    kafka-python 3.0 assigns nothing to some, if static and dynamic members are mixed.
    """
    worker = group.worker
    told = worker.tell()
    return {name: worker.commits[name] for name in told if told[name]["partitions"]}
