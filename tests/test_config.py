"""The configuration: four sources, Kafka's keys and checks, and one-line errors."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.broker import config_docs
from kohort.broker.config import (
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    STATIC_BROKER_CONFIG,
    TOPIC_CONFIG,
    Config,
    ConfigError,
    parse_topic,
    variable_of,
)
from kohort.broker.config_checks import bounds_of
from kohort.broker.config_hints import CLIENT_KEYS
from kohort.broker.config_keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
)
from kohort.broker.config_values import TYPE_NUMBERS, parse, to_text

ROOT = Path(__file__).parent.parent
MODES = {
    "cluster-wide",
    "dynamic-only",
    "hidden",
    "per-broker",
    "per-listener",
    "read-only",
}


def written(tmp_path: Path, text: str) -> Path:
    """A TOML file with this text."""
    file = tmp_path / "kohort.toml"
    file.write_text(text)
    return file


def refused(*sets: str, file: Path | None = None, **environment: str) -> str:
    """The one-line error of a configuration."""
    with pytest.raises(ConfigError) as error:
        Config.load(sets, file, environment)
    line = str(error.value)
    assert len(line.splitlines()) == 1
    return line


def test_every_key_of_kafka_has_a_default_that_its_own_check_accepts() -> None:
    """A broker without settings has Kafka's defaults, in Python's types."""
    config = Config()
    assert config["group.max.size"] == 2147483647
    assert config["group.initial.rebalance.delay.ms"] == 3000
    assert config["auto.create.topics.enable"] is True
    assert config["log.retention.ms"] is None
    assert config["log.cleanup.policy"] == ("delete",)
    assert config["log.cleaner.min.cleanable.ratio"] == 0.5
    for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values()):
        assert key.type in TYPE_NUMBERS
        assert key.mode in MODES
        assert set(key.parents) <= set(BROKER_KEYS)


def test_sources_in_order(tmp_path: Path) -> None:
    """The order is --set, the environment, the file, the defaults."""
    file = written(
        tmp_path,
        "group.max.size = 1\noffsets.retention.minutes = 1\nnum.partitions = 1\n",
    )
    environment = {
        "KOHORT_GROUP_MAX_SIZE": "2",
        "KOHORT_OFFSETS_RETENTION_MINUTES": "2",
    }
    config = Config.load(["group.max.size=3"], file, environment)
    assert config["group.max.size"] == 3
    assert config["offsets.retention.minutes"] == 2
    assert config["num.partitions"] == 1
    assert config["max.connections"] == 2147483647


def test_the_last_of_two_sets_counts() -> None:
    """Options appended to a command line override earlier ones."""
    config = Config.load(["group.max.size=1", "group.max.size=2"])
    assert config["group.max.size"] == 2


@pytest.mark.parametrize(
    "text",
    [
        "group.max.size = 7\nlog.cleanup.policy = ['compact', 'delete']",
        "'group.max.size' = 7\n'log.cleanup.policy' = 'compact,delete'",
        "[group]\nmax.size = 7\n[log.cleanup]\npolicy = 'compact , delete'",
        "[group.max]\nsize = '7'\n[log]\n'cleanup.policy' = ['compact', 'delete']",
    ],
)
def test_a_file_nests_as_it_likes(tmp_path: Path, text: str) -> None:
    """Dots in keys are TOML's tables, or are quoted: the key is the same."""
    config = Config.load(file=written(tmp_path, text))
    assert config["group.max.size"] == 7
    assert config["log.cleanup.policy"] == ("compact", "delete")


def test_a_program_gives_python_values() -> None:
    """Values from a program are Python's or text."""
    config = Config(
        {
            "group.max.size": 3,
            "num.partitions": "12",
            "auto.create.topics.enable": False,
            "log.cleanup.policy": ["compact"],
            "log.retention.ms": None,
        }
    )
    assert config["group.max.size"] == 3
    assert config["num.partitions"] == 12
    assert config["auto.create.topics.enable"] is False
    assert config["log.cleanup.policy"] == ("compact",)
    assert config["log.retention.ms"] is None


def test_an_unknown_key_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    """A mistyped key gets a suggestion."""
    assert refused("group.max.siez=5") == (
        "group.max.siez=5 (--set): unknown setting; did you mean group.max.size?"
    )
    assert refused(KOHORT_GROUP_MAX_SIEZ="5") == (
        "KOHORT_GROUP_MAX_SIEZ=5 (environment): unknown setting; "
        "did you mean KOHORT_GROUP_MAX_SIZE?"
    )
    file = written(tmp_path, "[group]\nmax = 5")
    assert refused(file=file).startswith(f"group.max=5 ({file}): unknown setting")
    assert "unknown setting" in refused("=5")
    assert refused("zzzzzzzzzzzzzz=5").endswith("unknown setting")


CONSUMERS = "this is a consumer's setting: set it in your program"
BOUNDS = (
    "; the broker bounds it by group.min.session.timeout.ms and "
    "group.max.session.timeout.ms"
)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("group.id", CONSUMERS),
        ("auto_offset_reset", CONSUMERS),
        (
            "session.timeout.ms",
            CONSUMERS + BOUNDS,
        ),
        ("acks", "this is a producer's setting: set it in your program"),
        (
            "segment.ms",
            "this is a topic's setting; the broker's default for it is log.roll.ms",
        ),
    ],
)
def test_a_setting_of_others_is_explained(name: str, why: str) -> None:
    """A client's or a topic's key, from the command line and from the environment."""
    assert refused(f"{name}=1") == f"{name}=1 (--set): {why}"
    variable = f"KOHORT_{name.replace('.', '_').upper()}"
    with pytest.raises(ConfigError) as error:
        Config.load(environment={variable: "1"})
    assert str(error.value) == f"{variable}=1 (environment): {why}"


def test_the_hints_are_about_settings_that_the_broker_does_not_have() -> None:
    """Otherwise they would never be shown."""
    assert not CLIENT_KEYS.keys() & BROKER_KEYS.keys()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("group.max.size=0", "must be at least 1"),
        ("group.max.size=many", "must be a whole number of 32 bits"),
        ("group.max.size=", "must be a whole number of 32 bits"),
        ("group.max.size=1_0", "must be a whole number of 32 bits"),
        ("group.max.size=2147483648", "must be a whole number of 32 bits"),
        ("group.max.size=" + "9" * 10_000, "must be a whole number of 32 bits"),
        ("offsets.topic.replication.factor=32768", "must be a whole number of 16 bits"),
        ("auto.create.topics.enable=yes", "must be true or false"),
        ("fetch.max.bytes=1023", "must be at least 1024"),
        ("log.message.timestamp.type=Now", "must be one of CreateTime, LogAppendTime"),
        ("log.cleaner.min.cleanable.ratio=2", "must be 0 to 1"),
        ("log.cleaner.min.cleanable.ratio=half", "must be a number"),
        ("compression.gzip.level=0", "must be 1 to 9 or -1"),
        ("log.cleanup.policy=compact,,delete", "an element is empty"),
        ("log.cleanup.policy=shred", "must be one of compact, delete"),
        ("remote.log.metadata.manager.class.name=", "must not be empty"),
        ("wire.error.numbering=77", "must be one of auto, kip-389, apache"),
        ("log.retention.ms=0", "must be -1 (for ever) or at least 1"),
        ("log.retention.hours=0", "must be -1 (for ever) or at least 1"),
        (
            "queued.max.request.bytes=5",
            "must be at least socket.request.max.bytes (104857600)",
        ),
        ("log.roll.ms=0", "must be at least 1"),
        ("log.roll.jitter.ms=-1", "must be at least 0"),
        (
            "group.consumer.session.timeout.ms=1",
            "must be at least group.consumer.min.session.timeout.ms (45000)",
        ),
        (
            "connections.max.idle.ms=100",
            "must be above connection.failed.authentication.delay.ms (100)",
        ),
    ],
)
def test_a_bad_value_is_refused_as_kafka_refuses_it(text: str, why: str) -> None:
    """The line has the key, the value, its source, and the valid values."""
    line = refused(text)
    assert line.startswith(text[:40])
    assert line.endswith(f" (--set): {why}")
    assert len(line) < 250


@pytest.mark.parametrize(
    "text",
    [
        "group.max.size= +5 ",
        "auto.create.topics.enable= TRUE ",
        "compression.gzip.level=-1",
        "group.consumer.migration.policy=disabled",
        "group.min.session.timeout.ms=-10",
        "log.cleanup.policy=",
        "queued.max.request.bytes=0",
        "connections.max.idle.ms=-1",
    ],
)
def test_what_kafka_accepts_is_accepted(text: str) -> None:
    """Unusual values that Kafka starts with are accepted."""
    Config.load([text])


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    """No description of the broker contains a password."""
    config = Config.load(["ssl.key.password=hunter2"])
    assert config["ssl.key.password"] == "hunter2"
    assert config.entry("ssl.key.password").value is None
    assert "hunter2" not in repr(config.entry("ssl.key.password"))
    assert "hunter2" not in repr(config.unused)


def test_bad_sources_are_refused(tmp_path: Path) -> None:
    """A missing or invalid file, a repeated key, and a --set without a value fail."""
    missing = tmp_path / "missing.toml"
    assert refused(file=missing) == f"{missing}: No such file or directory"
    assert "is a directory" in refused(file=tmp_path).lower()
    assert "no TOML" in refused(file=written(tmp_path, "group.max.size 5"))
    tmp_path.joinpath("kohort.toml").write_bytes(b"\xff\xfe")
    assert "no TOML" in refused(file=tmp_path / "kohort.toml")
    twice = "'group.max.size' = 5\n[group.max]\nsize = 6"
    assert "set twice" in refused(file=written(tmp_path, twice))
    assert refused("group.max.size") == "--set group.max.size: must be key=value"
    assert "group.max.size='5\\n6'" in refused("group.max.size=5\n6")
    with pytest.raises(ConfigError, match="must have a value"):
        Config({"group.max.size": None})


def test_every_key_has_a_variable_of_its_own() -> None:
    """No two keys share an environment variable."""
    assert len({variable_of(name) for name in BROKER_KEYS}) == len(BROKER_KEYS)
    assert variable_of("group.max.size") == "KOHORT_GROUP_MAX_SIZE"


def test_variables_of_a_service_called_kohort_are_no_keys() -> None:
    """Kubernetes gives pods addresses of services as KOHORT_PORT and the like."""
    config = Config.load(
        environment={
            "KOHORT_SERVICE_HOST": "10.0.0.1",
            "KOHORT_SERVICE_PORT": "9092",
            "KOHORT_SERVICE_PORT_KAFKA": "9092",
            "KOHORT_PORT": "tcp://10.0.0.1:9092",
            "KOHORT_PORT_9092_TCP_ADDR": "10.0.0.1",
            "KOHORT_BROKER_PORT_9092_TCP": "tcp://10.0.0.1:9092",
            "KOHORT_FROZEN": "1",
            "PATH": "/bin",
        }
    )
    assert config["group.max.size"] == 2147483647


def test_keys_without_effect_are_told(tmp_path: Path) -> None:
    """A key of Kafka's without an effect in kohort is accepted, and listed."""
    config = Config.load(
        ["group.max.size=5", "num.io.threads=9", "num.network.threads=3"],
        written(tmp_path, "broker.rack = 'r1'"),
    )
    assert set(config.unused) == {
        ("num.io.threads", "9", "--set"),
        ("broker.rack", "r1", str(tmp_path / "kohort.toml")),
    }


def test_keys_of_parts_are_kafkas(tmp_path: Path) -> None:
    """A listener's or plug-in's key is accepted by its prefix, as a secret."""
    config = Config.load(["listener.name.internal.ssl.key.password=hunter2"])
    name = "listener.name.internal.ssl.key.password"
    assert config.unused == ((name, None, "--set"),)
    assert config.entry(name).value is None
    with pytest.raises(KeyError):
        config.entry("no.such.key")


def test_entries_know_their_source() -> None:
    """DescribeConfigs shows the source of a value, and its synonyms."""
    config = Config({"group.max.size": " 05 "})
    entry = config.entry("group.max.size")
    assert (entry.value, entry.source) == ("5", STATIC_BROKER_CONFIG)
    assert entry.key.read_only
    assert entry.synonyms == (
        ("group.max.size", " 05 ", STATIC_BROKER_CONFIG),
        ("group.max.size", "2147483647", DEFAULT_CONFIG),
    )
    entry = config.entry("log.retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == (None, DEFAULT_CONFIG, ())
    assert not entry.key.read_only
    assert config.entry("log.cleaner.io.max.bytes.per.second").value == (
        "1.7976931348623157E308"
    )


def test_keys_change_while_the_broker_runs() -> None:
    """In IncrementalAlterConfigs a broker's value overrides the cluster's (KIP-226)."""
    config = Config({"max.connections": 10})
    config.alter({"max.connections": "20"}, source=DYNAMIC_DEFAULT_BROKER_CONFIG)
    config.alter({"max.connections": "30"})
    assert config["max.connections"] == 30
    assert [source for *_, source in config.entry("max.connections").synonyms] == [
        DYNAMIC_BROKER_CONFIG,
        DYNAMIC_DEFAULT_BROKER_CONFIG,
        STATIC_BROKER_CONFIG,
        DEFAULT_CONFIG,
    ]
    config.alter({"max.connections": None})
    assert config["max.connections"] == 20
    config.alter({"max.connections": "40"}, validate_only=True)
    assert config["max.connections"] == 20


@pytest.mark.parametrize(
    ("changes", "source", "why"),
    [
        ({"max.connections": "5", "group.max.size": "5"}, 2, "group.max.size cannot"),
        ({"max.connections": "-1"}, 2, "must be at least 0"),
        ({"max.connections": "5", "log.retention.ms": "0"}, 2, "for ever"),
        ({"listeners": "PLAINTEXT://:1"}, 3, "for one broker only"),
    ],
)
def test_changes_are_all_made_or_none(
    changes: dict[str, str], source: int, why: str
) -> None:
    """One invalid change of several leaves everything unchanged."""
    config = Config()
    with pytest.raises(ConfigError, match=why):
        config.alter(changes, source=source)
    assert config["max.connections"] == 2147483647


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": 2}, 7_200_000),
        ({"log.retention.hours": 2, "log.retention.minutes": 5}, 300_000),
        ({"log.retention.minutes": 5, "log.retention.ms": 7}, 7),
        ({"log.retention.ms": -7}, -1),
        ({"log.retention.hours": -1}, -1),
    ],
)
def test_retention_of_three_keys(settings: dict[str, object], expected: int) -> None:
    """Milliseconds override minutes, and those hours; negative means forever."""
    config = Config(settings)
    assert config.log_retention_ms == expected
    assert config.topic_default("retention.ms") == expected


def test_topics_take_the_brokers_values() -> None:
    """A topic's key has the broker's value until the topic sets it."""
    config = Config({"message.max.bytes": 5000, "log.roll.hours": 2})
    entry = config.topic_entry("max.message.bytes", {})
    assert (entry.value, entry.source) == ("5000", STATIC_BROKER_CONFIG)
    entry = config.topic_entry("max.message.bytes", {"max.message.bytes": " 7"})
    assert (entry.value, entry.source) == ("7", TOPIC_CONFIG)
    assert entry.synonyms == (
        ("max.message.bytes", "7", TOPIC_CONFIG),
        ("message.max.bytes", "5000", STATIC_BROKER_CONFIG),
        ("message.max.bytes", "1048588", DEFAULT_CONFIG),
    )
    assert config.topic({"max.message.bytes": "7"})["max.message.bytes"] == 7
    assert config.topic({"retention.ms": "7"})["max.message.bytes"] == 5000
    assert config.topic_default("segment.ms") == 7_200_000
    assert config.topic_default("flush.ms") == 9223372036854775807
    assert config.topic_default("segment.jitter.ms") == 0
    assert config.topic_default("remote.storage.enable") is False
    # As Kafka 4.3 shows it without any setting: hours are no synonym.
    entry = Config().topic_entry("retention.ms", {})
    assert (entry.value, entry.source) == ("604800000", DEFAULT_CONFIG)
    assert entry.synonyms == ()


def test_a_key_that_changes_silences_its_synonyms() -> None:
    """In Kafka hours from a file no longer apply, but are shown as a synonym."""
    config = Config({"log.retention.hours": 2, "log.retention.minutes": 5})
    config.alter({"log.retention.ms": "7"})
    assert config.log_retention_ms == 7
    hours = config.entry("log.retention.hours")
    assert (hours.value, hours.source) == ("168", STATIC_BROKER_CONFIG)
    assert config.entry("log.retention.ms").synonyms == (
        ("log.retention.ms", "7", DYNAMIC_BROKER_CONFIG),
        ("log.retention.minutes", "5", STATIC_BROKER_CONFIG),
        ("log.retention.hours", "2", STATIC_BROKER_CONFIG),
        ("log.retention.hours", "168", DEFAULT_CONFIG),
    )
    assert config.topic_entry("retention.ms", {}).source == DYNAMIC_BROKER_CONFIG
    config.alter({"log.retention.ms": None})
    entry = config.topic_entry("retention.ms", {})
    assert (entry.value, entry.source, entry.synonyms) == ("300000", DEFAULT_CONFIG, ())


def test_a_restart_may_change_more_than_a_running_broker() -> None:
    """At run time threads can at most double; saved values have no limit."""
    config = Config()
    config.restore({"num.io.threads": "100"}, DYNAMIC_BROKER_CONFIG)
    assert config["num.io.threads"] == 100
    with pytest.raises(ConfigError, match="must be 50 to 200: it was 100"):
        config.alter({"num.io.threads": "201"})


def test_numbers_are_written_as_java_writes_them() -> None:
    """Clients compare the texts of values."""
    texts = {0.5: "0.5", 0.0: "0.0", 1e-4: "1.0E-4", 123e8: "1.23E10", -2e7: "-2.0E7"}
    assert {number: to_text(number) for number in texts} == texts


def test_topics_defaults_agree_with_the_brokers() -> None:
    """The defaults in the table of topics follow from the broker's defaults."""
    config = Config()
    for name, key in TOPIC_KEYS.items():
        assert to_text(config.topic_default(name)) == key.default, name


def test_values_of_topics_are_checked() -> None:
    """CreateTopics and IncrementalAlterConfigs get the fault of a value."""
    assert parse_topic("retention.ms", "-1") == -1
    with pytest.raises(ConfigError, match=r"retention\.ms=-2: must be at least -1"):
        parse_topic("retention.ms", "-2")
    with pytest.raises(ConfigError, match="did you mean retention"):
        parse_topic("retention.msec", "1")


@given(st.sampled_from(sorted(BROKER_KEYS)), st.text(max_size=20))
def test_any_text_is_a_value_or_one_line(name: str, text: str) -> None:
    """Any text for a key is accepted, or refused in one printable line."""
    try:
        config = Config.load([f"{name}={text}"])
    except ConfigError:
        line = refused(f"{name}={text}")
        assert line.isprintable()
        assert line.startswith(name)
        return
    shown = config.entry(name).value
    if shown is not None:
        assert parse(BROKER_KEYS[name], shown) == config[name]


@given(st.integers(1, 2**31 - 1))
def test_numbers_survive(number: int) -> None:
    """A number in range is unchanged, from every source."""
    variable = {"KOHORT_GROUP_MAX_SIZE": str(number)}
    assert Config.load([f"group.max.size={number}"])["group.max.size"] == number
    assert Config.load(environment=variable)["group.max.size"] == number
    assert Config({"group.max.size": number})["group.max.size"] == number


def keys_named_in(folder: Path) -> set[str]:
    """The broker's keys that a folder's code mentions as texts."""
    return {
        node.value
        for file in folder.rglob("*.py")
        if not file.name.startswith("config")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    } & set(BROKER_KEYS)


def test_the_used_keys_are_those_that_the_code_uses() -> None:
    """A key is marked as used exactly if the code uses it."""
    used = {name for name, key in BROKER_KEYS.items() if key.used}
    of_config = {
        name
        for name in used
        if any(name in key.parents for key in TOPIC_KEYS.values() if key.used)
    } | {
        bound
        for key in GROUP_KEYS.values()
        if key.used
        for bound in bounds_of(key.name)
    }
    # The name of a topic's key says nothing about the broker's of the same name.
    named = keys_named_in(ROOT / "broker") - (TOPIC_KEYS.keys() - used)
    assert named | of_config == used


def test_each_key_has_a_text() -> None:
    """The text describes the key's effect in kohort, or says that it has none."""
    for keys, texts in (
        (BROKER_KEYS, config_docs.BROKER_DOCS),
        (TOPIC_KEYS, config_docs.TOPIC_DOCS),
        (GROUP_KEYS, config_docs.GROUP_DOCS),
        (CLIENT_METRICS_KEYS, config_docs.CLIENT_METRICS_DOCS),
    ):
        assert texts.keys() == keys.keys()
        for name, key in keys.items():
            assert texts[name].startswith("No effect in kohort") is not key.used
            assert re.fullmatch(r"[A-Z].*[^.]\.", texts[name])


def test_the_documentation_says_what_clients_are_told() -> None:
    """The documentation and DescribeConfigs have the same text for a key."""
    text = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9.]+)` \| `[^`|]*` \| (.*) \|$", text, re.MULTILINE)
    described = {
        name: re.sub(r"`|\[([^]]*)\]\([^)]*\)", r"\1", row)
        for name, row in rows
        if name in BROKER_KEYS and not row.startswith("`")
    }
    assert len(described) > 40
    for name, row in described.items():
        told = config_docs.BROKER_DOCS[name]
        assert told.lower() == f"{row}.".lower(), name


def test_the_documentation_lists_the_used_keys() -> None:
    """docs/reference/configuration.md lists the used keys and their defaults."""
    text = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    rows = dict(
        re.findall(
            r"^\| `([a-z0-9]+\.[a-z0-9.]+)` \| `?([^`|]*)`? \|", text, re.MULTILINE
        )
    )
    keys = {
        name: "" if key.default is None else key.default
        for keys in (BROKER_KEYS, TOPIC_KEYS)
        for name, key in keys.items()
        if key.used
    }
    assert {name: default.strip() for name, default in rows.items()} == keys
