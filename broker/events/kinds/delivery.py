"""The account of delivery, and commits that went back."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.broker.events.delivery_words import REASONS, SKIP_REASONS, WENT_BACK
from kohort.broker.events.fields import Field, Kind, always

_RANGE = (
    always("topic", "string", "a topic"),
    always("partition", "int", "a partition of it"),
    always("first", "long", "offset of the first record"),
    always("end", "long", "offset behind the last record"),
    always("records", "long", "their number, without markers and compacted offsets"),
)

ROWS: Mapping[str, tuple[Field, ...]] = {
    "again": (
        *_RANGE,
        always(
            "is_certain",
            "boolean",
            "an offset above them was committed, or the commit was refused, before they"
            " were sent again. False: they were received and not committed",
        ),
        Field("previous_reader", "string", "the member that received them first"),
        always("reader", "string", "the member that received them again"),
        always("reason_again", "string", "why they were sent again", REASONS),
    ),
    "skip": (
        *_RANGE,
        always("reader", "string", "the member that began behind them"),
        always("reason_skipped", "string", "why they were skipped", SKIP_REASONS),
    ),
    "rewind": (
        always("topic", "string", "a topic"),
        always("partition", "int", "a partition of it"),
        always("offset", "long", "the committed offset"),
        always("previous_offset", "long", "the one before, which is higher"),
    ),
}

KINDS: tuple[Kind, ...] = (
    Kind(
        "delivery_account",
        "What became of the records that a group was sent, since the last event of this"
        " kind. It is published only while the stream has a reader for it: a file, the"
        " topic, HTTP, metrics, or a test: after each rebalance, when records were"
        " skipped or have been sent again, and when the broker stops.",
        (
            always(
                "received", "long", "records that members received for the first time"
            ),
            always("again_certain", "long", "records in `again` with `is_certain`"),
            always("again_possible", "long", "the others in `again`"),
            always("skipped", "long", "records in `skips`"),
            always("uncommitted", "long", "records received and not committed, by now"),
            always("again", "[again]", "records that were received again"),
            always("skips", "[skip]", "records that no member was sent"),
            always("words", "string", "the account from the start, in a sentence"),
        ),
    ),
    Kind(
        "offsets_went_back",
        "Offsets below the committed ones were committed. `member_id` and `client_id`"
        " are the sender's. It is published only while the stream has a reader for it,"
        " as `delivery_account`.",
        (always("rewinds", "[rewind]", "the offsets"),),
        WENT_BACK,
    ),
)
