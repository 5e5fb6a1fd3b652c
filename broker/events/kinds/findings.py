"""A finding: a known problem of a group, with advice."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.broker.events.fields import Field, Kind, always

ROWS: Mapping[str, tuple[Field, ...]] = {
    "evidence": (
        always("time_ns", "long", "time of the observation, ns since the epoch"),
        always("text", "string", "the observation in words"),
        Field("sequence", "long", "the event that it is about; null: several"),
        Field("generation", "int", "the group's generation, then or right after"),
    ),
}

KINDS: tuple[Kind, ...] = (
    Kind(
        "finding",
        "A known problem of a group, computed once for all views by the rules of"
        " [`kohort why`](why.md#findings). When more is known it is published again,"
        " with the next `revision`: the latest one counts. It is published only while"
        " the stream has a reader for accounts: at most once a second, in longer"
        " intervals while the group goes on, and finally when the reader ends or the"
        " broker stops.",
        (
            always(
                "finding",
                "string",
                "key of the finding in its run and group: `code`, and a subject if"
                " the group can have several",
            ),
            always("revision", "int", "counts its revisions, from 1"),
            always("code", "string", "the problem, for programs"),
            always("title", "string", "the problem in words, with its numbers"),
            always("advice", "string", "the remedy"),
            always(
                "is_sure",
                "boolean",
                "false: other things look the same, and `title` says so",
            ),
            always(
                "is_withdrawn",
                "boolean",
                "true: what happened since shows that it is no problem",
            ),
            always("members", "[string]", "names of the members that it is about"),
            always("evidence", "[evidence]", "the observations, the first 20 of them"),
            always("evidence_count", "int", "the number of observations"),
            always("since_ns", "long", "time of the first observation"),
            always("until_ns", "long", "end of the last one"),
            always("unread_ns", "long", "partition-time without a reader that it cost"),
            always("paused_ns", "long", "member-time in which members paused for it"),
            always("records", "long", "records sent again, or skipped, because of it"),
            Field("setting", "string", "setting that would have helped; null: none"),
            Field("current", "string", "its value; null: unknown"),
            Field("suggested", "string", "the suggested value; null: no `setting`"),
            Field(
                "saving_ns",
                "long",
                "partition-time without a reader that the suggestion would have saved,"
                " less what it costs; null: unknown",
            ),
        ),
    ),
)
