"""The one place that starts an engine, or connects to one that runs.

Without a master it is Sail, which has all that the pipeline needs but Structured
Streaming and other file systems. Its memory has no limit.

Spark runs in a Java process beside this one, which ends with it. Its output goes to a
temporary file. If it does not start, the reason is read from there and raised in a
sentence.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.failures import text_of
from kohort.pipeline.files import absolute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
"""Reads Kafka's topics: the one connector that resolves whole with this PySpark."""
PROVIDED: Final = (
    "com.google.code.findbugs:jsr305",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.lz4:lz4-java",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
"""Dependencies of the connector that Spark itself brings: five sixths of the bytes that
would be fetched."""
PACKAGES: Final = "~/.ivy2.5.2"
"""The folder in which Spark keeps the packages that it fetches."""
CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
"""PySpark's functions make expressions for Spark Connect while this variable is set."""
NO_CALL_SITES: Final = ("spark.python.sql.dataFrameDebugging.enabled", "false")
"""Setting: PySpark does not look up the caller of each expression, for its errors,
which takes most of the time in which it makes them."""
_CORES: Final = "SAIL_EXECUTION__DEFAULT_PARALLELISM"
_SERVERS: Final[dict[str, Any]] = {}
"""Sail's servers by the ids of their sessions."""
DRIVER_MEMORY: Final = "2g"
CONNECT_S: Final = 5.0
"""Seconds that a master or a server may take to accept a connection."""
CONNECT_PORT: Final = 15002
"""The port of a Spark Connect server if its URL has none."""
_RETRIES: Final = MappingProxyType({"max_retries": 6, "max_backoff": 3_000})
"""Ten seconds or so for a server to answer again, in place of ten minutes."""
ENDS_S: Final = 0.5
"""Seconds in which a Java process that has closed its connections ends."""
LONGEST_REASON: Final = 600
"""Characters of Spark's output in an error without a sentence here."""

_LOGGING: Final = """\
rootLogger.level = error
rootLogger.appenderRef.all.ref = all
appender.all.type = Console
appender.all.name = all
appender.all.target = SYSTEM_ERR
appender.all.layout.type = PatternLayout
appender.all.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

_JAVA: Final = (
    "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=50000"
    " -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000"
    " -XX:Tier4BackEdgeThreshold=400000"
)
"""Java's second compiler takes a third of the CPU of a build of 2 million events, for
code of some 100 queries of which each runs once: it begins ten times later."""
_OF_SESSIONS: Final = MappingProxyType(
    {
        "spark.sql.session.timeZone": "UTC",
        # A laptop's cores are few, and an empty partition costs a task.
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        # From that many keys Spark sorts all rows of an aggregate of objects.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "4096",
    }
)
_DEFAULTS: Final = MappingProxyType(
    {
        "spark.app.name": "kohort",
        **_OF_SESSIONS,
        **dict([NO_CALL_SITES]),
        "spark.driver.extraJavaOptions": _JAVA,
        "spark.sql.streaming.stopTimeout": "60s",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
)


class SparkProblem(PipelineError):  # noqa: N818 - nothing of ours is wrong
    """Spark does not start, or ends; the message has advice."""


def session(
    master: str | None = None,
    conf: Mapping[str, str] = MappingProxyType({}),
    *,
    remote: str | None = None,
    connector: bool = False,
    packages: Iterable[str] | None = None,
    jars: Iterable[str] = (),
    driver_memory: str | None = None,
    cores: int = 0,
) -> SparkSession:
    """Starts an engine; times are UTC. `stop` ends it.

    With a master it is Spark in a Java process of this machine, with a remote a server
    of Spark Connect. Without either it is Sail, in this process, for which all
    arguments but ``cores`` are ignored. PySpark's expressions go to each of them.

    Args:
        master: as Spark spells it: ``local[*]``, ``spark://host:7077``, ``yarn``, ...
        conf: Spark's own settings; they go before those that are made here.
        remote: as PySpark has it: ``sc://host:port``, and parameters.
        connector: whether topics are to be read. Starting is faster without.
        packages: Maven coordinates instead of those of the connector; empty: they come
            with the jars.
        jars: files, or addresses, of jars.
        driver_memory: of the Java process, as in ``4g``; with a local master all work
            is done in it. None: `DRIVER_MEMORY`.
        cores: that Sail takes for a query; 0: all. Of few events, several take longer.

    Raises:
        SparkProblem: PySpark, Java, Sail or a jar is missing, the master or the server
            is not reached, or Spark runs in this process already.
    """
    if remote is not None:
        return _connect(remote, conf)
    if master is None:
        return _embedded(cores)
    return _spark(master, conf, connector, packages, jars, driver_memory)


def engine(spark: SparkSession) -> str:
    """The name and version of a session's engine."""
    if _id(spark) in _SERVERS:
        return f"Sail {metadata.version('pysail')}"
    return f"Spark {spark.version}"


def stop(spark: SparkSession) -> None:
    """Ends the engine and its Java process; harmless if they have ended already."""
    java = _process(spark)
    server = _SERVERS.pop(_id(spark), None)
    with contextlib.suppress(Exception):
        spark.stop()
    if _is_remote(spark):
        if server is not None:
            server.stop()
        if not _SERVERS:
            os.environ.pop(CONNECT_MODE, None)
        return
    _forget(type(spark.sparkContext))
    if java is not None:
        java.wait()


def ended(spark: SparkSession) -> int | None:
    """The exit code of Spark's Java process; None if it is running, or elsewhere.

    A killed process closes its connections a moment before it has an exit code.
    """
    java = _process(spark)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return None if java is None else java.wait(ENDS_S)
    return None


def _process(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """Spark's Java process; None: another one has started it, or it was stopped."""
    if _is_remote(spark):
        return None
    gateway = type(spark.sparkContext)._gateway
    found: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    return found


def _is_remote(spark: SparkSession) -> bool:
    """True if a session talks Spark Connect, as Sail's does."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _id(spark: SparkSession) -> str:
    return str(getattr(spark, "session_id", ""))


# -- the embedded engine, and Spark Connect


def _embedded(cores: int) -> SparkSession:
    # It would log each query. A user's own setting counts.
    os.environ.setdefault("RUST_LOG", "off")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other packages, as they are loaded
            from pysail.spark import SparkConnectServer
            from pyspark.sql.connect.session import SparkSession as Session
    except ImportError as error:
        raise SparkProblem(
            f"this needs Sail ({error}): in a checkout of kohort, pip install"
            " '.[pipeline]'; or, for Spark, '.[spark]', and --master 'local[*]'"
        ) from error
    before = os.environ.get(_CORES)
    os.environ[_CORES] = str(cores)
    try:
        server = SparkConnectServer()
        server.start(background=True)
    finally:
        os.environ.pop(_CORES)
        if before is not None:
            os.environ[_CORES] = before
    host, port = server.listening_address
    os.environ[CONNECT_MODE] = "1"
    spark: Any = Session.builder.remote(f"sc://{host}:{port}").create()
    # In one process no connection breaks, and none has to be taken up again.
    spark.client.disable_reattachable_execute()
    for name, value in (("spark.sql.session.timeZone", "UTC"), NO_CALL_SITES):
        spark.conf.set(name, value)
    _SERVERS[_id(spark)] = server
    return spark  # type: ignore[no-any-return]


def _connect(url: str, conf: Mapping[str, str]) -> SparkSession:
    _reach_server(url)
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession as Session
    except ImportError as error:
        raise SparkProblem(
            f"--remote needs PySpark ({error}): in a checkout of kohort,"
            " pip install '.[pipeline]'"
        ) from error
    os.environ[CONNECT_MODE] = "1"
    try:
        spark: Any = Session.builder.remote(url).create()
        spark.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
        for name, value in {**_OF_SESSIONS, **conf}.items():
            spark.conf.set(name, value)
    except Exception as error:
        os.environ.pop(CONNECT_MODE)
        raise SparkProblem(f"{url}: {text_of(error).splitlines()[0]}") from error
    _silence()
    return spark  # type: ignore[no-any-return]


# -- Spark


def _spark(
    master: str,
    conf: Mapping[str, str],
    connector: bool,
    packages: Iterable[str] | None,
    jars: Iterable[str],
    driver_memory: str | None,
) -> SparkSession:
    if not _SERVERS:  # a process that has one starts others with its environment
        os.environ.pop(CONNECT_MODE, None)
    context_class, conf_class, session_class = _pyspark()
    _refuse_a_second(context_class)
    _find_java()
    settings = _settings(master, conf)
    settings.setdefault("spark.driver.memory", driver_memory or DRIVER_MEMORY)
    wanted = [CONNECTOR] if connector else []
    if connector:
        _add(settings, "spark.jars.excludes", PROVIDED)
    _add(settings, "spark.jars.packages", wanted if packages is None else packages)
    _add(settings, "spark.jars", map(absolute, _there(jars)))
    _reach(master)
    spark_conf = conf_class(loadDefaults=False)
    with tempfile.TemporaryFile() as said, _logging(settings):
        spark_conf.setAll([*settings.items()])
        try:
            with _fetching(settings):
                gateway = _launch(spark_conf, said)
            context = context_class(conf=spark_conf, gateway=gateway)
            if master.startswith("local"):
                # PySpark takes the python3 of the path, which may be another version.
                context.pythonExec = os.environ.get("PYSPARK_PYTHON", sys.executable)
        except Exception as error:
            _forget(context_class)
            raise SparkProblem(_why(error, _text(said), settings)) from error
    _silence()
    made: SparkSession = session_class(context)
    return made


def _silence() -> None:
    """PySpark also logs the errors that it raises, on the terminal."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


# -- before it starts


def _pyspark() -> tuple[Any, Any, Any]:
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkProblem(
            f"Spark needs PySpark ({error}): in a checkout of kohort,"
            " pip install '.[spark]'. Except for streams and clusters it is not needed:"
            " pip install '.[pipeline]', and give no --master"
        ) from error
    return SparkContext, SparkConf, SparkSession


def _refuse_a_second(context: Any) -> None:
    if context._active_spark_context is not None:
        raise SparkProblem(
            "Spark runs in this process already, with other settings: stop it"
            " (spark.stop()), or hand that session over instead of making one"
        )
    # The Java process of one that was stopped would be taken again, with its jars.
    if context._gateway is not None:
        _forget(context)


def _forget(context: Any) -> None:
    """Lets PySpark start another Java process; this one ends as its input does."""
    gateway = context._gateway
    if gateway is None:
        return
    with contextlib.suppress(Exception):
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    context._gateway = context._jvm = None


def _find_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home:
        if not (Path(home) / "bin" / "java").exists() and os.name != "nt":
            raise SparkProblem(
                f"JAVA_HOME is {home}, and there is no bin/java: set it to where Java"
                " 17 is, or unset it"
            )
    elif shutil.which("java") is None:
        raise SparkProblem(
            "Spark needs Java 17, and there is none: install it"
            " (apt install openjdk-17-jre-headless), or set JAVA_HOME to where it is"
        )


def _settings(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    settings = {**_DEFAULTS, **conf, "spark.master": master}
    if master.startswith("local"):
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
        settings.setdefault("spark.sql.shuffle.partitions", str(2 * _cores(settings)))
    return settings


def _cores(settings: Mapping[str, str]) -> int:
    found = re.match(r"local\[(\d+)", settings["spark.master"])
    if found:
        return int(found[1])
    return (os.cpu_count() or 1) if "[" in settings["spark.master"] else 1


def _add(settings: dict[str, str], key: str, more: Iterable[str]) -> None:
    """Appends to a list of a setting, which has commas."""
    parts = [part for part in settings.get(key, "").split(",") if part]
    parts += [part for part in more if part not in parts]
    if parts:
        settings[key] = ",".join(parts)


def _there(jars: Iterable[str]) -> Iterator[str]:
    """Checks that jars exist: Spark itself would start, and miss classes later."""
    for jar in jars:
        if "://" not in jar and not Path(jar).exists():
            raise SparkProblem(f"there is no jar {jar}")
        yield jar


def _reach(master: str) -> None:
    """Spark itself would try for a minute, and then end in a riddle."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_S).close()
        except (OSError, ValueError) as error:
            reason = error
        else:
            return
    raise SparkProblem(f"no Spark master answers at {master}: {reason}")


def _reach_server(url: str) -> None:
    """PySpark itself would try for ten minutes."""
    try:
        where = urlsplit(url)
        address = (where.hostname, where.port or CONNECT_PORT)
        if where.scheme != "sc" or not where.hostname:
            raise ValueError("it must be sc://host:port")  # noqa: TRY301 - as urlsplit's
    except ValueError as error:
        raise SparkProblem(f"{url} is no server of Spark Connect: {error}") from error
    try:
        socket.create_connection(address, CONNECT_S).close()
    except OSError as error:
        raise SparkProblem(
            f"no Spark Connect server answers at {url}: {error}"
        ) from error


# -- starting


@contextlib.contextmanager
def _logging(settings: dict[str, str]) -> Iterator[None]:
    """Configures Java's logging from its first line on; it reads the file at start."""
    with tempfile.TemporaryDirectory(prefix="kohort-spark-") as folder:
        path = Path(folder) / "log4j2.properties"
        path.write_text(_LOGGING, encoding="utf-8")
        options = settings.get("spark.driver.extraJavaOptions", "")
        if "log4j" not in options:
            quiet = f"-Dlog4j2.configurationFile={path.as_uri()}"
            settings["spark.driver.extraJavaOptions"] = f"{options} {quiet}".strip()
        yield


@contextlib.contextmanager
def _fetching(settings: Mapping[str, str]) -> Iterator[None]:
    """Lets one process at a time fetch packages: two break each other's downloads."""
    if "spark.jars.packages" not in settings or os.name == "nt":
        yield
        return
    import fcntl

    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # Spark has better words for it
            folder = Path(settings.get("spark.jars.ivy", PACKAGES)).expanduser()
            folder.mkdir(parents=True, exist_ok=True)
            file = held.enter_context((folder / "kohort.lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _launch(conf: Any, said: IO[bytes]) -> Any:
    from pyspark.java_gateway import launch_gateway

    # Spark makes folders where it stands (artifacts, spark-warehouse).
    home = tempfile.mkdtemp(prefix="kohort-spark-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    with warnings.catch_warnings():
        # It forks; other threads of this process have no part in that.
        warnings.simplefilter("ignore", DeprecationWarning)
        # Where Java does not start, PySpark leaves its pipe to the garbage.
        warnings.simplefilter("ignore", ResourceWarning)
        launch: Any = launch_gateway
        return launch(conf, {"stdout": said, "stderr": said, "cwd": home})


def _text(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read().decode(errors="replace")


def _why(error: Exception, said: str, settings: Mapping[str, str]) -> str:
    """The error in a sentence, with advice."""
    everything = f"{said}\n{error}"
    if "UnsupportedClassVersionError" in everything or "Unrecognized option" in said:
        return "this Java is too old for Spark, which needs Java 17: set JAVA_HOME"
    if re.search(
        r"unresolved dependency|UNRESOLVED|download failed", everything, re.IGNORECASE
    ):
        return (
            f"Spark could not fetch {_unfetched(everything, settings)}: it takes"
            f" packages from Maven Central, once, into {PACKAGES}. Without a network"
            " give the jars themselves (--jars), and no packages"
        )
    found = re.search(r"(Could not parse Master URL|Master must)[^\n]*", everything)
    if found:
        master = settings["spark.master"]
        return f"{master} is no master: local[*], spark://host:7077, yarn, k8s://..."
    if "JAVA_HOME is not set" in said or "No such file or directory" in said:
        return "Spark needs Java 17, and finds none: install it, or set JAVA_HOME"
    lines = [
        line.strip()
        for line in everything.splitlines()
        if re.search(r"error|exception|cannot|invalid", line, re.IGNORECASE)
        and not line.strip().startswith("at ")
    ]
    reason = (lines[0] if lines else everything.strip())[:LONGEST_REASON]
    return f"Spark does not start (master {settings['spark.master']}): {reason}"


def _unfetched(text: str, settings: Mapping[str, str]) -> str:
    """The artifacts that Ivy names; of an error without names all that were asked."""
    named = re.findall(
        r"(?:unresolved dependency:|download failed:)\s*(\S+#[^\s:]+)", text
    )
    named += re.findall(r"::\s*(\S+#\S+?;\S+?): (?:not found|.*failed)", text)
    artifacts = [*dict.fromkeys(each.partition("!")[0] for each in named)]
    plain = [each.replace("#", ":").replace(";", ":") for each in artifacts]
    return ", ".join(plain) or str(settings.get("spark.jars.packages"))
