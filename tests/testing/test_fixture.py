"""The fixture `kohort` in async and in blocking tests: topics, nodes, programs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiokafka
import pytest

from kohort.broker.config import ConfigError
from kohort.testing import Kohort
from kohort.testing.processes import ProcessError
from kohort.testing.topics import TopicError

SHOW = """
import os, sys
print("servers", os.environ["KAFKA_BOOTSTRAP_SERVERS"])
print("http", os.environ.get("KOHORT_HTTP"))
print("oh dear", file=sys.stderr)
sys.exit(3)
"""


class TestTopics:
    """Topics with records, written and read without a client."""

    def test_a_number_of_records(self, kohort: Kohort) -> None:
        """They go round robin, from partition 0 on."""
        topic = kohort.topic("orders", partitions=3, records=7)
        found = [(each.partition, each.offset, each.value) for each in topic.records()]
        assert found == [
            (0, 0, b"0"),
            (0, 1, b"3"),
            (0, 2, b"6"),
            (1, 0, b"1"),
            (1, 1, b"4"),
            (2, 0, b"2"),
            (2, 1, b"5"),
        ]

    def test_values_and_keys(self, kohort: Kohort) -> None:
        """Texts, bytes and null; the same key goes to the same partition."""
        kohort.topic("orders", partitions=6, records=[("ann", "1"), ("ann", None)])
        first, second = kohort.records("orders")
        assert (first.key, first.value) == (b"ann", b"1")
        assert (second.key, second.value) == (b"ann", None)
        assert first.partition == second.partition

    async def test_a_consumer_reads_them(self, kohort: Kohort) -> None:
        """They are records as any other."""
        await kohort.topic("orders", records=["a", "b"])
        async with aiokafka.AIOKafkaConsumer(
            "orders",
            bootstrap_servers=kohort.bootstrap_servers,
            auto_offset_reset="earliest",
        ) as consumer:
            assert [(await consumer.getone()).value for _ in "ab"] == [b"a", b"b"]

    async def test_records_of_a_producer(self, kohort: Kohort) -> None:
        """Headers and timestamps come with them; compression does not matter."""
        await kohort.topic("orders")
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=kohort.bootstrap_servers, compression_type="gzip"
        ) as producer:
            await producer.send_and_wait(
                "orders", b"v", b"k", timestamp_ms=12, headers=[("h", b"1")]
            )
        (record,) = kohort.records("orders")
        assert (record.key, record.value, record.timestamp_ms) == (b"k", b"v", 12)
        assert [*record.headers] == [("h", b"1")]

    @pytest.mark.kohort(partitions=4)
    def test_the_marker_says_how_many_partitions(self, kohort: Kohort) -> None:
        """A topic may say otherwise."""
        values = {
            each.partition
            for name, count in (("a", None), ("b", 2))
            for each in kohort.topic(name, partitions=count, records=8).records()
            if each.topic == name and name == "a"
        }
        assert values == {0, 1, 2, 3}

    def test_more_records_later(self, kohort: Kohort) -> None:
        """`produce` appends."""
        topic = kohort.topic("orders", records=1)
        topic.produce(["later"])
        assert [each.value for each in kohort.records("orders")] == [b"0", b"later"]

    def test_a_missing_topic_is_named(self, kohort: Kohort) -> None:
        """The error lists those that exist."""
        kohort.topic("orders")
        with pytest.raises(TopicError, match="'order'; the topics are: orders"):
            kohort.records("order")

    def test_a_topic_is_created_once(self, kohort: Kohort) -> None:
        """A second one of that name, or an illegal name, is an error."""
        kohort.topic("orders")
        with pytest.raises(TopicError, match="'orders' already exists"):
            kohort.topic("orders")
        with pytest.raises(TopicError, match="illegal"):
            kohort.topic("or/ders")

    def test_a_topic_has_a_configuration(self, kohort: Kohort) -> None:
        """Its values are numbers or texts; an unknown key is an error."""
        with pytest.raises(ConfigError, match=r"did you mean retention\.ms"):
            kohort.topic("orders", config={"retention.m": 1})
        with pytest.raises(ConfigError, match=r"retention\.ms=soon"):
            kohort.topic("orders", config={"retention.ms": "soon"})
        kohort.topic("orders", config={"retention.ms": -1})
        topic = kohort.broker.cluster.topics.by_name["orders"]
        assert topic.overrides == {"retention.ms": "-1"}

    def test_a_refused_record_is_named(self, kohort: Kohort) -> None:
        """The error has Kafka's name, and the partition."""
        topic = kohort.topic("orders", config={"max.message.bytes": "100"})
        with pytest.raises(TopicError, match=r"^orders-0: MESSAGE_TOO_LARGE"):
            topic.produce(["x" * 200])


class TestNodes:
    """Nodes that stop and start, in both kinds of test."""

    pytestmark = pytest.mark.kohort(nodes=3)

    def test_blocking(self, kohort: Kohort) -> None:
        """The call has waited when it returns."""
        kohort.stop_node(2)
        assert kohort.call(lambda: kohort.broker.cluster.running) == [1, 3]
        kohort.start_node(2)
        assert kohort.call(lambda: kohort.broker.cluster.running) == [1, 2, 3]

    async def test_async(self, kohort: Kohort) -> None:
        """The call is awaited."""
        await kohort.stop_node(2)
        assert kohort.call(lambda: kohort.broker.cluster.running) == [1, 3]

    async def test_in_another_thread_of_an_async_test(self, kohort: Kohort) -> None:
        """There the call waits: no loop runs in that thread."""
        await asyncio.to_thread(kohort.stop_node, 3)
        assert kohort.call(lambda: kohort.broker.cluster.running) == [1, 2]


async def test_another_cluster(kohort: Kohort) -> None:
    """It has the address of the first one, and none of its topics and groups."""
    servers = kohort.bootstrap_servers
    kohort.topic("orders", records=["one"])
    member = kohort.member("billing")
    await member.join()
    before = kohort.call(lambda: kohort.broker.cluster.id)
    await kohort.replace()
    assert kohort.call(lambda: kohort.broker.cluster.id) != before
    assert kohort.group("billing").state == "Dead"
    assert kohort.topic("orders", records=["two"]).records()[0].value == b"two"
    async with aiokafka.AIOKafkaConsumer(
        "orders", bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        assert (await consumer.getone()).value == b"two"


@pytest.mark.kohort(data_dir=True)
def test_logs_in_files(kohort: Kohort, tmp_path: Path) -> None:
    """The data directory is in the test's folder."""
    kohort.topic("orders", records=1)
    assert (tmp_path / "kohort" / "orders-0").is_dir()


class TestProcesses:
    """Programs with the broker's address, and their output."""

    def test_blocking(self, kohort: Kohort) -> None:
        """The line and the exit code are there when the calls return."""
        process = kohort.process([sys.executable, "-c", SHOW])
        line = process.wait_for_line("servers")
        assert line.text == f"servers {kohort.bootstrap_servers}"
        assert process.wait_for_line("oh", stream="stderr").text == "oh dear"
        assert process.wait().code == process.returncode == 3
        assert process.wait_for_line("http").text == "http None"

    async def test_async(self, kohort: Kohort) -> None:
        """The same, awaited."""
        process = kohort.process([sys.executable, "-c", SHOW])
        assert (await process.wait()).code == 3
        assert (await process.wait_for_line("oh", stream="stderr")).text == "oh dear"

    def test_the_http_port_is_opened_when_asked_for(self, kohort: Kohort) -> None:
        """A program in another language gets its URL."""
        process = kohort.process([sys.executable, "-c", SHOW], http=True)
        line = process.wait_for_line("http").text
        assert line == f"http {kohort.http}"
        assert line.startswith("http http://127.0.0.1:")

    def test_a_line_that_does_not_come(self, kohort: Kohort) -> None:
        """The error has the exit code, and the end of stderr."""
        process = kohort.process([sys.executable, "-c", SHOW])
        end = r"it ended with 3; its stderr:\n  oh"
        why = rf"did not write a line with 'never' to stdout; {end}"
        with pytest.raises(ProcessError, match=why):
            process.wait_for_line("never")
        with pytest.raises(ProcessError, match=why):
            process.wait_for_line("never")

    def test_a_process_that_goes_on(self, kohort: Kohort) -> None:
        """A wait has an end; it can be asked to end, or killed."""
        process = kohort.process([sys.executable, "-c", "input()", "-"])
        sleeper = kohort.process([sys.executable, "-c", "import time; time.sleep(99)"])
        assert process.wait().code == 1  # it has no stdin
        with pytest.raises(ProcessError, match="is still running after"):
            sleeper.wait(timeout=0.01)
        sleeper.terminate()
        assert sleeper.wait().code == -15

    def test_children_are_killed_with_it(self, kohort: Kohort) -> None:
        """A shell's child holds the pipe; it ends when both are killed."""
        script = f"{sys.executable} -c 'import time; print(1); time.sleep(99)'; true"
        process = kohort.process(["sh", "-c", script])
        process.wait_for_line("1")
        process.kill()
        with pytest.raises(ProcessError, match="it ended with -9"):
            process.wait_for_line("the end of a pipe without writers")
