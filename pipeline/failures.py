"""Failures of Spark, Java, disks and file systems, each in a sentence with advice.

Spark reports a failure in a hundred lines: its own message, then Java's stacks.
The functions here find the cause in it. They are pure, except `text_of`: it asks the
Java process for the text, which may be gone.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote

LONGEST: Final = 400
"""Characters of a foreign message in one of our sentences."""
FULL: Final = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
"""Numbers of operating system errors for want of space."""
OBJECT_STORE_JARS: Final = "org.apache.hadoop:hadoop-aws:3.4.1"

_FILE: Final = r"^file:/{1,3}"
_CLASS: Final = r"(?:[a-z_][\w$]*\.)+[A-Z][\w$]*"


def text_of(error: BaseException) -> str:
    """The text of an error, with the stacks of Java that PySpark has kept apart.

    Java has the text of its own errors, and may have ended.
    """
    stacks = (
        getattr(each, "_stackTrace", None)
        for each in (error, getattr(error, "_cause", None))
    )
    try:
        # Behind the message of a stream follows its plan.
        message = str(error).partition("=== Streaming Query ===")[0]
    except Exception:  # noqa: BLE001 - the connection to Java raises several kinds
        message = "the Java process has ended"
    return "\n".join([message, *filter(None, stacks)])


def without_frames(text: str) -> str:
    """The text of an error without the lines that name places in Java's code."""
    lines = text.splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("at "))


def sentence(text: str, lake: str = "") -> str:
    """An error of Spark, PySpark or py4j in a sentence, see `known`."""
    return known(text, lake) or f"Spark: {cause(text)}"


def known(text: str, lake: str = "") -> str | None:
    """Says what went wrong, and what to do about it; None: the failure is unknown.

    Args:
        text: the text of an error.
        lake: the path of the lake; files in it are named by their table.
    """
    for pattern, words in _RULES:
        found = re.search(pattern, text)
        if found:
            return words(found, text, lake)
    return None


def cause(text: str) -> str:
    """The last cause in an error's text, without Java's class names and stack."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    said = [line for line in lines if not line.startswith("An error occurred")]
    last = (causes or said or ["an error without a text"])[-1 if causes else 0]
    last = last.removeprefix("Caused by: ").removeprefix(": ")
    last = re.sub(rf"^(?:{_CLASS}: )+", "", last)
    return _cut(re.sub(r"\s*SQLSTATE: \w+\.?", "", last))


def why_unread(text: str) -> str | None:
    """Why a file was not read, in few words, by the text of an error.

    None: a job failed for another reason.
    """
    for pattern, words in (
        (
            r"[Uu]nexpected end of |EOFException|incomplete deflate stream",
            "it is cut off",
        ),
        (
            r"is not a Parquet file|Parquet (magic bytes|file size|error)",
            "it is no Parquet file, or is cut off",
        ),
        (r"ChecksumException", "it is damaged, or cut off: its checksum is wrong"),
        (
            "not in gzip format|incorrect (header|data) check|invalid gzip header",
            "it is no gzip file",
        ),
        (
            r"\(Permission denied\)|AccessControlException|PermissionError|Errno 13",
            "permission denied",
        ),
        (
            r"FileNotFound(Exception|Error)|FILE_NOT_EXIST|Errno 2\b",
            "it does not exist any more",
        ),
    ):
        if re.search(pattern, text):
            return words
    if "Encountered error while reading file" in text:
        return f"it is damaged ({cause(text)})"
    return None


def local(uri: str) -> str:
    """A URI without its escapes; of a local file its path."""
    return unquote(re.sub(_FILE, "/", uri))


def of_system(error: OSError, lake: str) -> str:
    """An error of the operating system, in a sentence."""
    if error.errno in FULL:
        return _full(error.filename or lake, error.strerror or "")
    if isinstance(error, PermissionError):
        return _not_allowed(error.filename or lake)
    return str(error)


def of_java(code: int, memory: str) -> str:
    """The end of Spark's Java process, by its exit code, in a sentence.

    Args:
        code: as in `subprocess`: a negative number is a signal.
        memory: the size of its heap.
    """
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    advice = "run the command again; what was not finished does not count"
    if code == -9:
        advice += (
            ". If nothing else has killed it, the system was short of memory:"
            f" --memory is {memory}"
        )
    return f"Spark's Java process {how}: {advice}"


# -- the words of each failure


def _full(where: str, why: str) -> str:
    return (
        f"the disk is full: {where} could not be written ({why.lower()}). Make room,"
        " and run the command again; what was not finished does not count"
    )


def _not_allowed(where: str) -> str:
    return f"{where}: permission denied; give this user the right to use it"


def _disk(found: re.Match[str], text: str, lake: str) -> str:
    where = _written(text, lake) or lake or "a file"
    if re.search(r"blockmgr-|ExternalSorter|spill|Shuffle\w*Writer", text):
        where += ", or Spark's temporary folder (--conf spark.local.dir=DIR),"
    return _full(where, found[0])


def _memory(found: re.Match[str], text: str, lake: str) -> str:
    where = _written(text, lake)
    at = f" at {where}" if where else ""
    return (
        f"Spark ran out of memory{at} ({found[0]}): give it more, --memory 4g with a"
        " local master, --conf spark.executor.memory=4g on a cluster"
    )


def _server(found: re.Match[str], text: str, lake: str) -> str:
    return (
        "the Spark Connect server does not answer any more: look at its log, and run"
        " the command again when it does; what was not finished does not count"
    )


def _executor(found: re.Match[str], text: str, lake: str) -> str:
    where = _written(text, lake)
    at = f" at {where}" if where else ""
    reason = re.search(r"Reason: ([^\n]+)", text[found.start() :])
    why = f" ({_cut(reason[1].strip())})" if reason else ""
    return (
        f"executor {found[1]} was lost too often{at}{why}: look at its log on the"
        " worker. If it was killed for its memory, --conf spark.executor.memory=4g"
        " gives it more"
    )


def _cluster(found: re.Match[str], text: str, lake: str) -> str:
    return (
        f"the cluster ended Spark's application ({_cut(found[0])}): look at the"
        " master's log, and run the command again; what was not finished does not count"
    )


def _unread(found: re.Match[str], text: str, lake: str) -> str:
    path = local(found[1])
    gone = "Path does not exist" in found[0]
    why = "it does not exist" if gone else why_unread(text) or "it is damaged"
    return f"{named(path, lake)} cannot be read: {why}. {_mended(path, lake)}"


def _damaged(found: re.Match[str], text: str, lake: str) -> str:
    """Sail does not name the file."""
    return (
        f"a Parquet file of {lake} is damaged ({_cut(found[1])}): the same command with"
        " --master 'local[*]' names it, and says how to restore it"
    )


def _denied(found: re.Match[str], text: str, lake: str) -> str:
    path = found[1] if found.lastindex else ""
    return _not_allowed(named(local(path), lake) if path else lake)


def _no_jars(found: re.Match[str], text: str, lake: str) -> str:
    return (
        f"Spark has no file system for {lake or found[0]}: it needs the jars of the"
        f" store; for s3a:// --packages {OBJECT_STORE_JARS}"
    )


def _store(found: re.Match[str], text: str, lake: str) -> str:
    return f"{lake}: {_cut(found[0])}; look at its address, bucket and credentials"


def _unreached(found: re.Match[str], text: str, lake: str) -> str:
    return (
        f"{lake}: no answer from {found[1]}; look whether it runs and is reached"
        " from here, and run the command again"
    )


_Words = Callable[[re.Match[str], str, str], str]
_RULES: Final[Sequence[tuple[str, _Words]]] = (
    (r"No space left on device|Disk quota exceeded|File too large", _disk),
    (r"Java heap space|GC overhead limit exceeded|OutOfMemoryError[^\n]*", _memory),
    (r"ExecutorLostFailure \(executor (\S+)", _executor),
    (r"Master removed our application[^\n]*", _cluster),
    (r"All masters are unresponsive[^\n]*", _cluster),
    (r"SparkContext was shut ?down|[Ss]topped SparkContext", _cluster),
    (r"RETRIES_EXCEEDED", _server),
    (r"S3AFileSystem not found|No FileSystem for scheme[^\n]*", _no_jars),
    (r"FileNotFoundException: (\S+) \(Permission denied\)", _denied),
    (r"(?:AccessDeniedException:|Mkdirs failed to create) (\S+)", _denied),
    (r"Permission denied|AccessControlException", _denied),
    (r"Encountered error while reading file (\S+?)\.?\s", _unread),
    (r"(\S+) is not a Parquet file", _unread),
    (r"Path does not exist: (\S+?)\.?\s", _unread),
    (r"FileNotFoundException: File (\S+) does not exist", _unread),
    (r"The specified bucket does not exist|NoSuchBucket", _store),
    (r"NoAuthWithAWSException[^\n]*|InvalidAccessKeyId[^\n]*", _store),
    (r"Parquet (?:argument )?error: ([^\n]*)", _damaged),
    (r"(?:Connect to|[Ff]rom \S+ to) (\S+) .*?(?:failed|refused)", _unreached),
)
"""Patterns of texts, the clearest first, and the functions that make a sentence."""


# -- files of the lake


def named(path: str, lake: str) -> str:
    """A path, with the table that it belongs to if it is in the lake."""
    inside = _inside(path, lake)
    build = re.match(r"builds/([^/]+)/((?:silver|gold)/\w+)", inside)
    if build:
        return f"table {build[2]} of build {build[1]} ({path})"
    stream = re.match(r"checkpoints/([^/]+)", inside)
    if stream:
        return f"stream {stream[1]} ({path})"
    ingest = re.match(r"bronze/(?:events|new)/([^/]+)", inside)
    return f"ingest {ingest[1]} ({path})" if ingest else path


def _mended(path: str, lake: str) -> str:
    """Advice about a damaged file."""
    inside = _inside(path, lake)
    if inside.startswith("builds/"):
        return "`kohort pipeline build` makes the tables again"
    ingest = re.match(r"bronze/events/([^/]+)", inside)
    if ingest:
        return (
            f"Remove {lake}/bronze/events/{ingest[1]} and {lake}/bronze/files.json,"
            " ingest the files again, and build"
        )
    if inside:
        return "Restore it, or read the topic again into a new lake"
    return "Replace the file, and run the command again"


def _inside(path: str, lake: str) -> str:
    """The path in the lake; empty: it is elsewhere."""
    root = f"{re.sub(_FILE, '/', lake)}/"
    return path.removeprefix(root) if lake and path.startswith(root) else ""


def _written(text: str, lake: str) -> str:
    """The table, or folder, that a job was writing; empty: unknown."""
    found = re.search(r"Task failed while writing rows to (\S+?)\.?\s", text)
    return named(local(found[1]), lake) if found else ""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
