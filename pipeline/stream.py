"""Events of a running broker: its topic, by Structured Streaming, into bronze.

A stream is read in rounds: each reads up to the present end of the topic, in batches.
A batch goes the way of an ingest, see `kohort.pipeline.bronze`, so a batch that comes
again after a kill adds nothing. The checkpoint has the offsets read so far.

A topic that is made anew, as by a broker that starts without its data, has another id,
and another checkpoint: it is read from its beginning.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from kohort.client import Admin, AdminConfig, KohortError
from kohort.client.errors import RequestTimedOutError, UnknownTopicError
from kohort.pipeline.bronze import LOCK, SOURCE, Taking
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.event_schema import WHY, parsed
from kohort.pipeline.failures import cause, known, text_of, without_frames
from kohort.pipeline.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC: Final = "__kohort_events"
NAME: Final = "live"
CHECKPOINTS: Final = "checkpoints"
SOURCE_ALONE: Final = "kafka.max.poll.records"
"""An option of the source's consumer, which an admin client does not have."""
PATIENCE_MS: Final = 30_000
"""Kafka's client waits this long for an answer from the broker: longer than a restart
takes. Then it takes up to two thirds of that to close."""

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
"""For `Stream`: continues with the rest of a topic that lost records to retention."""


class StreamError(PipelineError):
    """A stream that cannot start, or has ended; the message has advice."""


class SilentError(StreamError):
    """The broker does not answer."""


@dataclass(slots=True)
class Stream:
    """A stream of a lake.

    Attributes:
        lake: its session needs the connector.
        bootstrap: the broker's address.
        name: the stream's name; an existing stream continues.
        topic: the topic, whose values are events as JSON.
        options: options of Spark's Kafka source; ``kafka.*`` go to its client.
        events: new events so far.
        known: events that were stored already.
        quarantined: records that are no events, by reason.
    """

    lake: Lake
    bootstrap: str
    name: str = NAME
    topic: str = TOPIC
    options: Mapping[str, str] = field(default_factory=dict)
    events: int = 0
    known: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)

    def read(self, on_batch: Callable[[], None] = lambda: None) -> None:
        """Reads the topic up to its present end.

        Args:
            on_batch: called after each batch.

        Raises:
            SilentError: no broker answers.
            StreamError: the topic is unknown, or records are gone from it.
        """
        asked = {**_OPTIONS, **self.options, "kafka.bootstrap.servers": self.bootstrap}
        topic_id, partitions = _topic(asked, self.topic)
        query = self._start(asked, topic_id, partitions, on_batch)
        try:
            query.awaitTermination()
        except Exception as error:
            raise problem(error, self.bootstrap, self.lake.path) from error
        finally:
            query.stop()

    def _start(
        self,
        options: Mapping[str, str],
        topic_id: str,
        partitions: int,
        on_batch: Callable[[], None],
    ) -> StreamingQuery:
        def take(records: DataFrame, _: int) -> None:
            with self.lake.lock(LOCK, "a stream", waits=True):
                taking = Taking(self.lake)
                taking.add(records)
                counts = taking.settle()
            self.events += counts["events"]
            self.known += counts["known"]
            self.quarantined.update(counts["quarantined"])
            on_batch()

        spark = self.lake.spark
        # The newer way to ask for offsets finds no partitions of internal topics; with
        # this one "subscribe" would join a group, of which there would be events.
        spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
        assigned = json.dumps({self.topic: [*range(partitions)]})
        records = spark.readStream.format("kafka").options(**options, assign=assigned)
        checkpoint = f"{CHECKPOINTS}/{self.name}-{topic_id}"
        return (
            _rows(records.load())
            .writeStream.queryName(self.name)
            .foreachBatch(take)
            .option("checkpointLocation", self.lake.uri(checkpoint))
            .trigger(availableNow=True)
            .start()
        )


def _rows(records: DataFrame) -> DataFrame:
    """Events of a topic's records; of a record that is none, its place as source."""
    from pyspark.sql import functions as sql

    place = sql.format_string(
        "%s, partition %d, offset %d", "topic", "partition", "offset"
    )
    # Events have a field `topic`, too.
    texts = records.select(
        sql.col("value").cast("string"),
        sql.col("topic").alias("_topic"),
        place.alias("_place"),
    )
    source = sql.when(sql.col(WHY).isNull(), sql.col("_topic"))
    rows = parsed(texts, "value")
    return rows.withColumn(SOURCE, source.otherwise(sql.col("_place")))


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
        return SilentError(f"{bootstrap} does not answer any more")
    return StreamError(f"the stream has ended: {cause(text)}")


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
        raise SilentError(f"no broker answers at {bootstrap}: {error}") from error
    except KohortError as error:
        raise StreamError(f"{bootstrap}: {error}") from error


async def _described(config: AdminConfig, topic: str) -> tuple[str, int]:
    async with Admin(config) as admin:
        found: Any = (await admin.describe_topics([topic]))[topic]
    topic_id = base64.urlsafe_b64encode(found.topic_id).decode().rstrip("=")
    return topic_id, len(found.partitions)
