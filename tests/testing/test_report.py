"""The report of a test run: stories of failed tests, wrong markers, missing awaits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Before pytester: it forgets the modules that a run imports, and some of these cannot
# be imported twice.
import kohort.control.timeline.packing
import kohort.control.why.history
import kohort.testing.member
import kohort.testing.report
import kohort.testing.starting  # noqa: F401 - see above

FAILS = """
    import sys

    def test_a_group(kohort):
        kohort.topic("orders", records=3)
        member = kohort.member("billing", topics=["orders"], client_id="ben")
        member.join()
        member.sync()
        member.leave(reason="lunch")
        kohort.process(
            [sys.executable, "-c", "import sys; sys.exit('no such topic')"]
        ).wait()
        assert kohort.group("billing").history().last.cause == "member_joined"
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder of tests, run as those of any user."""
    pytester.makeini(
        """
        [pytest]
        addopts = --strict-markers -p no:cacheprovider -p no:asyncio
        filterwarnings = error
        """
    )
    return pytester


def test_a_failure_tells_the_story_of_each_group(suite: pytest.Pytester) -> None:
    """Below the traceback: rebalances in words, and the end of stderr."""
    suite.makepyfile(FAILS)
    result = suite.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- kohort why billing -*",
            "group billing: 2 rebalances in *",
            "Generation 1: ben was the first to join;*",
            'Generation 2: ben left (reason: "lunch");*',
            "*- stderr of python*, which ended with 1 -*",
            "no such topic",
        ]
    )
    result.stdout.no_fnmatch_line("*kohort timeline*")


def test_a_story_runs_to_the_present(suite: pytest.Pytester) -> None:
    """A hold that goes on lasts until the report, not until the last event."""
    suite.makepyfile(
        """
        import pytest

        @pytest.mark.kohort(clock="manual")
        def test_a_group(kohort):
            kohort.group("billing").hold()
            kohort.member("billing", client_id="ben").join(wait=False)
            kohort.group("billing").until(state="PreparingRebalance")
            kohort.clock.advance(7)
            assert not kohort.clock.now()
        """
    )
    suite.runpytest_inprocess().stdout.fnmatch_lines(
        [
            "group billing: 1 rebalance in 7.0 s, which took 7.0 s",
            "After *; a test held the group in PreparingRebalance for 7.0 s; still *",
        ]
    )


REREADS = """
    import sys
    import pytest

    CONSUME = [sys.executable, "-m", "kohort", "consume", "orders", "-qn3"]

    @pytest.fixture
    def late():
        # Set up before the broker, so it ends after it.
        yield
        assert not {in_teardown}

    @pytest.mark.kohort(data_dir={data_dir})
    def test_a_group(late, kohort):
        kohort.topic("orders", partitions=1, records=3)
        kohort.process(
            [*CONSUME, "--group=billing", "--from-beginning"],
            env={{"KOHORT_BOOTSTRAP_SERVERS": kohort.bootstrap_servers}},
        ).wait()
        kohort.member("fine").join()
        ben = kohort.member("billing", topics=["orders"], client_id="ben")
        ben.join()
        ben.sync()
        ben.commit({{("orders", 0): 1}})
        assert {in_teardown}
"""


@pytest.mark.parametrize("data_dir", [False, True])
@pytest.mark.parametrize("in_teardown", [False, True])
def test_a_failure_tells_what_was_delivered(
    suite: pytest.Pytester, *, in_teardown: bool, data_dir: bool
) -> None:
    """By group, if there is anything to say; also when the broker has stopped."""
    suite.makepyfile(REREADS.format(in_teardown=in_teardown, data_dir=data_dir))
    result = suite.runpytest_inprocess()
    result.assert_outcomes(
        passed=in_teardown, failed=not in_teardown, errors=in_teardown
    )
    result.stdout.fnmatch_lines(
        [
            "*- kohort delivery billing -*",
            "group billing: 3 records: * the committed offset went back once*",
            "  orders-0: ben committed 1 after 3",
        ]
    )
    result.stdout.no_fnmatch_line("*kohort delivery fine*")


@pytest.mark.parametrize("prefix", ["", "async "])
def test_an_error_of_kohort_shows_the_line_of_the_test(
    suite: pytest.Pytester, prefix: str
) -> None:
    """And no frame of kohort, in whatever thread it was raised."""
    wait = "await " if prefix else ""
    suite.makepyfile(
        f"""
        import pytest

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        {prefix}def test_it(kohort):
            {wait}kohort.group("billing").stable(timeout=0.001)
        """
    )
    result = suite.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">       *.stable(timeout=0.001)",
            "E       *ConditionTimeout: timed out after 0.001 s *",
        ]
    )
    result.stdout.no_fnmatch_line("*waiting.py*")
    result.stdout.no_fnmatch_line("*conditions.py*")


def test_a_failure_leaves_a_timeline_page(suite: pytest.Pytester) -> None:
    """With the option; a test that passes leaves none."""
    suite.makepyfile(FAILS + "\n    def test_fine(kohort):\n        pass\n")
    result = suite.runpytest_inprocess("--kohort-artifacts=pages")
    result.assert_outcomes(failed=1, passed=1)
    (page,) = (suite.path / "pages").iterdir()
    result.stdout.fnmatch_lines(["*- kohort timeline -*", str(page)])
    assert "test_a_group" in page.name
    assert "test_a_group - kohort timeline</title>" in page.read_text()


@pytest.mark.long
def test_reports_come_through_xdist(suite: pytest.Pytester) -> None:
    """A worker's report has the same sections, and its page is where it belongs."""
    suite.makepyfile(FAILS)
    result = suite.runpytest_subprocess("-n1", "--kohort-artifacts=pages")
    result.assert_outcomes(failed=1)
    (page,) = (suite.path / "pages").iterdir()
    result.stdout.fnmatch_lines(
        ["*- kohort why billing -*", "*- stderr of python*", str(page)]
    )


@pytest.mark.parametrize(
    ("keywords", "why"),
    [
        ("node=3", "kohort(node=...): unknown keyword; the keywords are: nodes, *"),
        (
            "config={'group.max.siz': 1}",
            "group.max.siz=1 (the program): unknown setting; *group.max.size?",
        ),
    ],
)
def test_a_wrong_marker_is_an_error_of_one_line(
    suite: pytest.Pytester, keywords: str, why: str
) -> None:
    """It names the keyword or the key, without a traceback."""
    suite.makepyfile(
        f"""
        import pytest

        @pytest.mark.kohort({keywords})
        def test_it(kohort):
            pass
        """
    )
    result = suite.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    heading = next(n for n, line in enumerate(result.outlines) if "ERROR at" in line)
    suite_says = result.outlines[heading + 1 : heading + 3]
    result.stdout.fnmatch_lines(["* ERROR at setup of test_it *", why])
    assert suite_says[1].startswith("====")


def test_markers_are_merged_from_module_class_and_test(suite: pytest.Pytester) -> None:
    """The closest wins; configurations are merged key by key."""
    suite.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.kohort(nodes=3, config={"group.max.size": 4})

        @pytest.mark.kohort(partitions=2)
        class TestClass:
            @pytest.mark.kohort(nodes=1, config={"message.max.bytes": 5000})
            def test_it(self, kohort):
                config = kohort.broker.config
                assert "," not in kohort.bootstrap_servers
                assert config["num.partitions"] == 2
                assert config["group.max.size"] == 4
                assert config["message.max.bytes"] == 5000
                assert config["group.initial.rebalance.delay.ms"] == 0
        """
    )
    suite.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_call_that_is_not_awaited_is_an_error(suite: pytest.Pytester) -> None:
    """The test has not waited for anything; the error has the line."""
    suite.makepyfile(
        test_nodes="""
        import pytest

        pytestmark = pytest.mark.kohort(nodes=2)

        async def test_forgets(kohort):
            kohort.stop_node(2)

        async def test_fails(kohort):
            kohort.stop_node(2)
            raise LookupError

        async def test_awaits_later(kohort):
            stopping = kohort.stop_node(2)
            kohort.topic("orders")
            await stopping
        """
    )
    suite.makeini(
        """
        [pytest]
        asyncio_mode = auto
        asyncio_default_fixture_loop_scope = function
        """
    )
    result = suite.runpytest_inprocess()
    result.assert_outcomes(passed=2, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "* ERROR at teardown of test_forgets *",
            "not awaited: kohort.stop_node(2) at test_nodes.py:6",
        ]
    )


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_anyio(suite: pytest.Pytester, backend: str) -> None:
    """Tests of anyio await the same calls, on either loop."""
    suite.makepyfile(
        f"""
        import pytest

        @pytest.fixture
        def anyio_backend():
            return "{backend}"

        @pytest.mark.anyio
        @pytest.mark.kohort(nodes=2)
        async def test_it(kohort):
            await kohort.stop_node(2)
            assert (await kohort.member("billing").join()).error == "NONE"
        """
    )
    result = suite.runpytest_inprocess()
    result.assert_outcomes(passed=1)


def test_pytest_lists_the_marker_and_the_option(suite: pytest.Pytester) -> None:
    """`pytest --markers` and `pytest --help` know them."""
    markers = suite.runpytest_inprocess("--markers")
    markers.stdout.fnmatch_lines(["@pytest.mark.kohort(nodes=1, partitions=None,*"])
    options = suite.runpytest_inprocess("--help")
    options.stdout.fnmatch_lines(["*--kohort-artifacts=DIR*"])


def test_a_broker_used_after_its_test_says_so(suite: pytest.Pytester) -> None:
    """A handle that was kept in a global."""
    suite.makepyfile(
        """
        import pytest

        kept = []

        def test_first(kohort):
            kept.append(kohort)

        def test_second():
            with pytest.raises(RuntimeError, match="test has ended"):
                kept[0].topic("orders")
        """
    )
    suite.runpytest_inprocess().assert_outcomes(passed=2)


def test_pages_of_long_names_have_short_file_names(tmp_path: Path) -> None:
    """A parameter may be longer than a file name."""
    from kohort.testing.report import file_name

    first, second = file_name("test_a.py::test[" + "x" * 500), file_name("y" * 500)
    assert len(first) < 200
    assert first != second
    assert (tmp_path / first).write_text("") == 0
    assert sys.getfilesystemencoding() == "utf-8"
