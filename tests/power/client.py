"""A client of a broker; subclasses decide how its requests are sent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from tests.power import batches
from tests.power.findings import Found, FoundPart, FoundTopic
from tests.power.model import Place
from tests.wire.requests import (
    EARLIEST,
    LATEST,
    TOPIC,
    describe_configs,
    fetch_offsets,
    list_offsets,
    produce,
)

from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.apis.k03_metadata import MetadataRequest
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.fields import ZERO_UUID


class RefusedError(Exception):
    """A request was answered with an error.

    Attributes:
        code: the error code.
    """

    def __init__(self, code: int, answer: object) -> None:
        super().__init__(f"error {code}: {answer}")
        self.code = code


def accepted(answer: Any) -> Any:
    """Returns a response without an error.

    Raises:
        RefusedError: it has one.
    """
    if answer.error_code:
        raise RefusedError(answer.error_code, answer)
    return answer


class Client(ABC):
    """Sends requests to a broker, and waits for each response."""

    @abstractmethod
    def call(self, api_name: str, version: int, message: object) -> Any:
        """Sends a request, and returns its response."""

    # -- state that clients can see

    def found(self, groups: Iterable[str], is_mine: Callable[[str], bool]) -> Found:
        """Some topics, their records, and the committed offsets of these groups."""
        answer = self.call("Metadata", 12, MetadataRequest(None, False))
        topics = {}
        for each in answer.topics:
            if is_mine(each.name):
                accepted(each)
                parts = [self.part(each.name, i) for i in range(len(each.partitions))]
                config = self.config_of(each.name)
                topics[each.name] = FoundTopic(bytes(each.topic_id), config, parts)
        committed = {}
        for group in groups:
            (about,) = self.call("OffsetFetch", 8, fetch_offsets(group)).groups
            for topic in accepted(about).topics:
                for row in topic.partitions:
                    key = group, (topic.name, row.partition_index)
                    committed[key] = row.committed_offset, row.metadata or ""
        return Found(topics, committed)

    def offset(self, topic: str, index: int, which: int) -> int:
        """ListOffsets for the earliest or latest offset."""
        request = list_offsets(topic, index, timestamp=which)
        (about,) = self.call("ListOffsets", 6, request).topics
        offset: int = accepted(about.partitions[0]).offset
        return offset

    def part(self, topic: str, index: int) -> FoundPart:
        """All batches of a partition, by Fetch."""
        start, end = (self.offset(topic, index, w) for w in (EARLIEST, LATEST))
        records = []
        position = start
        while position < end:
            rows = [FetchPartition(index, -1, position, partition_max_bytes=1 << 20)]
            request = FetchRequest(topics=[FetchTopic(topic, ZERO_UUID, rows)])
            (about,) = self.call("Fetch", 12, request).responses[0].partitions
            got = list(batches.read(bytes(accepted(about).records or b"")))
            if not got:
                break
            for batch in got:
                assert batch.last >= position, f"{topic}: {batch.last} at {position}"
                records += [row for row in batch.records if row[0] >= start]
                position = batch.last + 1
        return FoundPart(start, end, records)

    def config_of(self, topic: str) -> dict[str, str]:
        """A topic's configuration."""
        request = describe_configs(TOPIC, topic)
        (about,) = self.call("DescribeConfigs", 4, request).results
        return {each.name: each.value for each in accepted(about).configs}

    # -- for steps and checks

    def send(self, place: Place, data: bytes) -> Any:
        """Produces one batch; returns its response."""
        request = produce((place[1], data), topic=place[0])
        (about,) = self.call("Produce", 9, request).responses
        return about.partition_responses[0]

    def new_producer_id(self) -> int:
        """InitProducerId."""
        answer = self.call("InitProducerId", 4, InitProducerIdRequest(None))
        producer_id: int = accepted(answer).producer_id
        return producer_id
