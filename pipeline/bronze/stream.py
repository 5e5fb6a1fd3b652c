"""Events of a running broker, as they happen: its topic, by Structured Streaming.

The stream's checkpoint has the offsets read so far, and the file sink's log the files
that count, so that each record is there once, even if Spark or this process is killed.

No event is dropped for being late. The watermark is on the time of arrival, so no
event is ever behind it: it bounds the time for which duplicates of a record are
recognised. Later duplicates are found when bronze is read. Events that are late by
their own time are counted (``late`` in `METRICS`).

A topic that is made anew, as by a broker that starts without its data, has another id:
its events go on in another folder, ``<name>.2``, from its beginning.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kohort.client import Admin, AdminConfig, KohortError
from kohort.client.errors import RequestTimedOutError, UnknownTopicError
from kohort.pipeline.bronze.columns import (
    ARRIVED,
    LOST,
    SOURCE,
    bronze_schema,
    sink_schema,
)
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.event_schema import IDENTITY, RAW, WHY, parsed
from kohort.pipeline.failures import cause, known, text_of, without_frames
from kohort.pipeline.lake import CHECKPOINTS, STREAMS, Lake
from kohort.pipeline.sink_log import METADATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC: Final = "__kohort_events"
SOURCE_ALONE: Final = "kafka.max.poll.records"
"""An option of the source's consumer, which an admin client does not have."""
NAME: Final = "live"
FOLLOWERS: Final = "followers"
"""The folder with the checkpoints of readers that follow a stream."""
METRICS: Final = "events"
"""``observedMetrics`` of a query's progress: of its last batch ``events``, those that
are ``quarantined``, those that came ``late``, and ``behind_ms``: the latest of them."""
LATE_S: Final = 60.0
"""An event is late if its batch comes this much later than the event, in seconds."""
PATIENCE_MS: Final = 30_000
"""Kafka's client waits this long for an answer from the broker: longer than a restart
takes. Then it takes up to two thirds of that to close, and the stream ends."""
ASKS: Final = "Getting offsets"
"""The status of a query that asks the broker for the end of the topic begins so."""
PARTITIONS: Final = 2
"""Partitions of the state, and so files per batch: many small ones slow readers."""

_OPTIONS: Final = MappingProxyType(
    {
        "startingOffsets": "earliest",
        # Spark asks for the end of the topic twice per poll: with 500 records in each,
        # the default, that takes most of the time.
        SOURCE_ALONE: "10000",
        "kafka.default.api.timeout.ms": str(PATIENCE_MS),
        "kafka.request.timeout.ms": str(PATIENCE_MS // 3),
        "kafkaConsumer.pollTimeoutMs": str(PATIENCE_MS),
        # Kafka's client tries again by itself: by Spark's three attempts a broker that
        # is gone would be noticed after three minutes.
        "fetchOffset.numRetries": "1",
        # Bounds a batch's memory, and the work to repeat after a kill.
        "maxOffsetsPerTrigger": "500000",
        # Fail instead of losing records silently.
        "failOnDataLoss": "true",
    }
)


SKIP_LOST: Final = MappingProxyType({"failOnDataLoss": "false"})
"""For `start`: continues with the rest of a topic that lost records to retention."""


class StreamError(PipelineError):
    """A stream that cannot start, or has ended; the message has advice."""


def start(
    lake: Lake,
    bootstrap: str,
    *,
    name: str = NAME,
    topic: str = TOPIC,
    once: bool = False,
    every: str = "5 seconds",
    known_for: str = "5 minutes",
    options: Mapping[str, str] = MappingProxyType({}),
) -> StreamingQuery:
    """Starts to read a broker's topic of events into the lake, or continues.

    Args:
        lake: its session needs the connector.
        bootstrap: the broker's address.
        name: the stream's name; an existing stream continues.
        topic: the topic, whose values are events as JSON.
        once: reads up to the current end of the topic, and ends.
        every: the pause between batches.
        known_for: how long the stream recognises duplicates of a record; each
            number of an event in that time is some 300 bytes of memory. A clock must
            not go back by more than that.
        options: options of Spark's Kafka source; ``kafka.*`` go to its client.

    Returns:
        The query; its ``name`` is the folder's. See `problem` for how it ends.

    Raises:
        StreamError: no broker answers, or the topic is unknown.
        LakeError: another process is running this stream.
    """
    asked = {**_OPTIONS, **options, "kafka.bootstrap.servers": bootstrap}
    topic_id, partitions = _topic(asked, topic)
    held = _hold(lake, name)
    try:
        actual = _folder(lake, name, topic, topic_id)
        _mind_the_clock(lake, actual, known_for)
        spark = lake.spark.newSession()
        spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
        # Else a batch without records would follow each, to forget old numbers.
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        # Readers take a folder with this one for a stream's from the first file on.
        lake.make(f"{STREAMS}/{actual}/{METADATA}")
        # The newer way to ask for offsets finds no partitions of internal topics; with
        # this one "subscribe" would join a group, of which there would be events.
        spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
        assigned = json.dumps({topic: [*range(partitions)]})
        records = spark.readStream.format("kafka").options(**asked, assign=assigned)
        writer = (
            _rows(records.load(), known_for)
            .writeStream.format("parquet")
            .queryName(actual)
            .partitionBy("quarantined")
            .option("checkpointLocation", lake.uri(f"{CHECKPOINTS}/{actual}"))
        )
        trigger: dict[str, Any] = {"availableNow": True}
        writer = writer.trigger(**trigger if once else {"processingTime": every})
        query = writer.start(lake.uri(f"{STREAMS}/{actual}"))
    except BaseException:
        held.close()
        raise
    _HELD[lake.path, name] = (query, held)
    return query


def follow(
    lake: Lake,
    name: str,
    on_batch: Callable[[int, Sequence[str]], None],
    *,
    once: bool = False,
) -> StreamingQuery:
    """Calls back with the runs whose events a stream has written to bronze.

    A batch whose callback had not returned when the process was killed comes again.

    Args:
        lake: the lake with the stream.
        name: the stream's name; its latest folder is followed.
        on_batch: called with a batch number and the runs with new events; if it raises,
            the query ends.
        once: calls back for the batches that are there now, and ends; else it looks
            every 5 seconds.

    Raises:
        StreamError: an unknown stream.
    """
    actual = _latest(lake, name)
    if actual is None:
        raise StreamError(f"there is no stream {name} in {lake.path}")

    def tell(rows: DataFrame, batch: int) -> None:
        runs = rows.filter("not quarantined").select("run").distinct().collect()
        if runs:
            on_batch(batch, sorted(row["run"] for row in runs))

    # A compaction may have removed files that this reader has not seen.
    rows = lake.spark.readStream.schema(sink_schema()).option(
        "ignoreMissingFiles", "true"
    )
    trigger: dict[str, Any] = {"availableNow": True}
    return (
        rows.parquet(lake.uri(f"{STREAMS}/{actual}"))
        .writeStream.queryName(f"follows {actual}")
        .foreachBatch(tell)
        .option("checkpointLocation", lake.uri(f"{FOLLOWERS}/{actual}"))
        .trigger(**trigger if once else {"processingTime": "5 seconds"})
        .start()
    )


def problem(
    error: BaseException, bootstrap: str = "the broker", lake: str = ""
) -> PipelineError:
    """The error with the reason why a query has ended, and advice.

    Args:
        error: the query's.
        bootstrap: the broker's address.
        lake: the path of the lake.
    """
    if isinstance(error, PipelineError):
        return error
    whole = text_of(error)
    text = without_frames(whole)
    if re.search(
        r"DATA_LOSS|data may have been lost|OffsetOutOfRange|was changed from", text
    ):
        return StreamError(
            "records that were not read yet are gone from the topic: it was made anew,"
            " or its retention took them. Start the stream again: a topic that was made"
            " anew is read from its beginning. If it ends like this again it was"
            " retention: start it once with --skip-lost, and it goes on with the rest"
        )
    if "UnknownTopicOrPartition" in text:
        return StreamError(
            "the topic was deleted; start the stream again when there is one"
        )
    failure = known(whole, lake)
    if failure is not None:
        return StreamError(f"the stream has ended: {failure}")
    if re.search(r"TimeoutException|DisconnectException|Timeout of|timed? ?out", text):
        return StreamError(
            f"{bootstrap} does not answer any more: start the stream again when it"
            " does; it goes on where it was"
        )
    return StreamError(f"the stream has ended: {cause(text)}")


# -- rows


def _rows(records: DataFrame, known_for: str) -> DataFrame:
    """The rows that the sink writes of a topic's records."""
    from pyspark.sql import functions as sql

    place = sql.format_string(
        "%s, partition %d, offset %d", "topic", "partition", "offset"
    )
    # Events have a field `topic`, too.
    topic = sql.col("topic").alias("_topic")
    texts = records.select(
        sql.col("value").cast("string"), topic, place.alias("_place")
    )
    is_event = sql.col(WHY).isNull()
    rows = parsed(texts, "value").select(
        "*",
        sql.current_timestamp().alias(ARRIVED),
        sql.when(is_event, sql.col("_topic"))
        .otherwise(sql.col("_place"))
        .alias(SOURCE),
        (~is_event).alias("quarantined"),
        (is_event & (sql.col("kind") == LOST)).alias("_lost"),
    )
    # A record that is no event has no identity: its place tells it apart.
    rows = rows.withColumn("_place", sql.when(~is_event, sql.col("_place")))
    once = rows.withWatermark(ARRIVED, known_for).dropDuplicatesWithinWatermark(
        [*IDENTITY, "_lost", "_place"]
    )
    behind_ms = sql.unix_millis(ARRIVED) - (sql.col("wall_ns") / 1_000_000).cast("long")
    names = [field.name for field in bronze_schema().fields]
    return once.select(*names, RAW, WHY, "quarantined").observe(
        METRICS,
        sql.count_if(~sql.col("quarantined")).alias("events"),
        sql.count_if("quarantined").alias("quarantined"),
        sql.count_if(behind_ms > LATE_S * 1000).alias("late"),
        sql.max(behind_ms).alias("behind_ms"),
    )


# -- the topic, and the folder


_HELD: Final[dict[tuple[str, str], tuple[StreamingQuery, contextlib.ExitStack]]] = {}
"""The locks of this process's streams, see `release`: a query has no end that could
give one back."""


def _hold(lake: Lake, name: str) -> contextlib.ExitStack:
    release(lake, name)
    held = contextlib.ExitStack()
    held.enter_context(lake.lock(f"stream-{name}", f"stream {name}"))
    return held


def release(lake: Lake, name: str) -> None:
    """Gives the lock of a stream back if its query has ended."""
    query, held = _HELD.get((lake.path, name), (None, None))
    if query is not None and held is not None and not query.isActive:
        del _HELD[lake.path, name]
        held.close()


def _topic(options: Mapping[str, str], topic: str) -> tuple[str, int]:
    """Topic id, as Kafka writes it, and number of partitions."""
    settings = {
        key.removeprefix("kafka."): value
        for key, value in options.items()
        if key.startswith("kafka.") and key != SOURCE_ALONE
    }
    bootstrap = settings["bootstrap.servers"]
    try:
        return asyncio.run(_described(AdminConfig.parse(settings), topic))
    except UnknownTopicError as error:
        raise StreamError(
            f"{bootstrap} has no topic {topic}: kohort topics create {topic}, or"
            " kohort serve --set events.topic.enable=true"
        ) from error
    except RequestTimedOutError as error:
        raise StreamError(f"no broker answers at {bootstrap}: {error}") from error
    except KohortError as error:
        raise StreamError(f"{bootstrap}: {error}") from error


async def _described(config: AdminConfig, topic: str) -> tuple[str, int]:
    async with Admin(config) as admin:
        found = (await admin.describe_topics([topic]))[topic]
    topic_id = base64.urlsafe_b64encode(found.topic_id).decode().rstrip("=")
    return topic_id, len(found.partitions)


def _folder(lake: Lake, name: str, topic: str, topic_id: str) -> str:
    """The stream's folder for this topic: another one for another id."""
    said = {"topic": topic, "topic_id": topic_id}
    for actual in _folders(name):
        found = lake.read_json(f"{STREAMS}/{actual}.json")
        if found is None:
            lake.write_text(f"{STREAMS}/{actual}.json", json.dumps(said))
        if found is None or found == said:
            return actual
    raise AssertionError


def _latest(lake: Lake, name: str) -> str | None:
    latest = None
    for actual in _folders(name):
        if not lake.exists(f"{STREAMS}/{actual}.json"):
            break
        latest = actual
    return latest


def _folders(name: str) -> Iterator[str]:
    """The names of a stream's folders, one for each topic that it has read."""
    yield name
    for number in itertools.count(2):
        yield f"{name}.{number}"


def _mind_the_clock(lake: Lake, actual: str, known_for: str) -> None:
    """A clock that went back would make new records late, and late ones are dropped."""
    marks = [0]
    for folder in ("offsets", "commits"):
        path = f"{CHECKPOINTS}/{actual}/{folder}"
        batches = [int(name) for name in lake.names(path) if name.isdigit()]
        text = lake.read_text(f"{path}/{max(batches)}") if batches else None
        marks += map(int, re.findall(r'atchWatermarkMs":(\d+)', text or ""))
    if time.time() * 1000 <= max(marks):
        raise StreamError(
            f"this machine's clock is more than {known_for} behind its time at the"
            " stream's last run: set it right first"
        )
