"""Names that clients, users and files bring: they are shown as texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.timeline import streams
from tests.timeline.browser_page import Show, Shown
from tests.timeline.live_broker import Running

from kohort.control.commands.timeline import timeline

pytestmark = pytest.mark.interop


IMAGE = "<img src=x onerror='window.hit=1'>"
SCRIPT = "</script><script>window.hit=1</script><!--"
UNSEEN = "ana\u202egnp.exe\u0000\n\u200b"
VIEWS = ("chart", "findings", "rebalances", "members", "marks")


@pytest.fixture
def broker() -> Iterator[Running]:
    """A broker with a topic of six partitions."""
    with Running(labels={"label": IMAGE, SCRIPT: "1"}) as running:
        yield running


def see_all(shown: Shown) -> str:
    """All texts of all views and explanations; nothing of them has run."""
    texts = []
    for view in VIEWS:
        shown.page.locator(f"#tab-{view}").click()
        texts.append(shown.page.locator("body").inner_text())
    shown.page.locator("#tab-chart").click()
    shown.evaluate(
        """() => {
          const { model, panel } = kohort;
          window.texts = [];
          const see = (mark) => {
            panel.open([mark]);
            texts.push(document.getElementById("panel").innerText);
          };
          model.marks.forEach(see);
          for (const group of model.groups.values()) {
            group.marks.forEach(see);
            const { end: at } = model;
            for (const lane of group.lanes) see({ lane, at, isMoment: true });
          }
        }"""
    )
    assert shown.evaluate("() => window.hit ?? null") is None
    assert shown.page.locator("img, iframe, object").count() == 0
    return "\n".join([*texts, *shown.evaluate("() => texts")])


def test_what_clients_call_themselves_live(broker: Running, visit: Show) -> None:
    """Client ids, a group's id, an instance id and labels, from real clients.

    Groups are called as what JavaScript's objects have by themselves, too.
    """
    broker.join(IMAGE, group=SCRIPT)
    broker.join(SCRIPT, group="__proto__")
    broker.join(UNSEEN, group="constructor")
    broker.join_static(IMAGE, group="toString")
    broker.leave(SCRIPT)
    shown = visit(f"{broker.url}#group=%")
    shown.until("() => kohort.model.groups.size === 4 && kohort.model.rebalances === 5")
    rows = "\n".join(shown.rows)
    for name in (IMAGE, SCRIPT, "__proto__", "constructor", "toString"):
        assert name in rows
    text = see_all(shown)
    for name in (f"label: {IMAGE}", f"{SCRIPT}: 1", f"{SCRIPT} left the group"):
        assert name in text
    assert f"group.instance.id\n{IMAGE}\n" in text


def test_what_is_in_a_file(visit: Show, tmp_path: Path) -> None:
    """The same in the page that `kohort timeline` makes, its name included."""
    scene = streams.Scene(SCRIPT)
    _, second = scene.arrive(2, IMAGE)
    scene.leave(second, IMAGE)
    events = streams.merge(scene)
    events.append({**events[-1], "sequence": 999, "kind": "toString", "cause": SCRIPT})
    file = tmp_path / "@STYLE@<img src=x>@DATA@.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    page = tmp_path / "page.html"
    done = CliRunner().invoke(timeline, [str(file), "-o", str(page)])
    assert done.exit_code == 0, done.output
    shown = visit(page.as_uri())
    shown.page.wait_for_selector("#status[data-status=file]")
    assert file.name in shown.page.title()
    text = see_all(shown)
    assert file.name in text
    assert f"Its reason: “{IMAGE}”." in text
    assert SCRIPT in text


def test_long_and_unseen_names(show: Show) -> None:
    """They are cut, invisible characters are spelt out, the panel has all."""
    scene = streams.Scene("g" * 249)
    scene.arrive(2, "a" * 30_000, UNSEEN)
    shown = show(streams.merge(scene))
    assert all(len(row) < 400 for row in shown.rows)
    assert "Member ana⟨U+202E⟩gnp.exe⟨U+0000⟩⟨U+000A⟩⟨U+200B⟩ of" in shown.rows[-1]
    shown.evaluate("() => kohort.chart.goToRow(1)")
    shown.press("Enter")
    assert "a" * 1900 in shown.panel.inner_text()
    width, room = shown.evaluate(
        "() => [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert width == room


def test_members_are_called_as_in_the_explanations(show: Show) -> None:
    """Two members share a client id: the first differing characters are added."""
    scene = streams.Scene("orders")
    first, second, third = scene.arrive(3, "worker", "worker")
    names = [f"worker-{each.member_id[7:11]}" for each in (first, second)]
    shown = show(streams.merge(scene))
    found = [row.split()[1] for row in shown.rows if row.startswith("Member")]
    assert found == [*names, third.name]
    assert names[0] != names[1]


def test_a_process_that_is_started_again_keeps_its_name(show: Show) -> None:
    """It has a new member id and lane; no other member had its name."""
    scene = streams.Scene("orders")
    first, second = scene.arrive(2)
    scene.leave(second)
    scene.arrive(1, second.name)
    shown = show(streams.merge(scene))
    found = [row.split()[1] for row in shown.rows if row.startswith("Member")]
    assert found == [first.name, second.name, second.name]
