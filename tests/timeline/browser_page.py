"""A page open in a browser, and the actions on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

LOAD_MS = 60_000.0
"""Patience: a hundred thousand events on a machine that does other things, too."""

# On the canvas, the colour at a moment in a member's lane, as the style names it.
_COLOUR = """([name, at]) => {
  const { chart } = kohort;
  chart.draw();
  const row = chart.shown.find((each) => each.lane?.name === name);
  const canvas = document.getElementById("canvas");
  const ratio = window.devicePixelRatio;
  const style = getComputedStyle(document.documentElement);
  const names = ["joining", "waiting", "syncing", "stable", "silent", "bg", "band"];
  const willReadFrequently = true;
  const small = document.createElement("canvas");
  const probe = small.getContext("2d", { willReadFrequently });
  const seen = {};
  for (let dx = 0; dx < 6; dx += 1) {
    const x = (chart.labels + (at - chart.from) * chart.scale + dx) * ratio;
    const y = (row.y + AXIS + row.height / 2) * ratio;
    probe.drawImage(canvas, x, y, 1, 1, 0, 0, 1, 1);
    const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
    for (const each of names) {
      probe.fillStyle = style.getPropertyValue(`--${each}`).trim();
      probe.fillRect(0, 0, 1, 1);
      const [r2, g2, b2] = probe.getImageData(0, 0, 1, 1).data;
      if (Math.abs(r - r2) + Math.abs(g - g2) + Math.abs(b - b2) < 6) {
        seen[each] = (seen[each] ?? 0) + 1;
      }
    }
  }
  return Object.entries(seen).sort((a, b) => b[1] - a[1])[0]?.[0] ?? "other";
}"""


_REDDEST = """([from, to]) => {
  const { chart } = kohort;
  chart.draw();
  const ratio = window.devicePixelRatio;
  const x = (time) => (chart.labels + (time - chart.from) * chart.scale) * ratio;
  const width = Math.ceil(x(to) - x(from));
  const copy = document.createElement("canvas");
  copy.width = width;
  copy.height = 60;
  const context = copy.getContext("2d", { willReadFrequently: true });
  const y = chart.shown.find((row) => row.lane).y * ratio;
  context.drawImage(chart.painter.canvas, x(from), y, width, 60, 0, 0, width, 60);
  const { data } = context.getImageData(0, 0, width, 60);
  let most = 0;
  for (let i = 0; i < data.length; i += 4) most = Math.max(most, data[i] - data[i + 1]);
  return most;
}"""


class Shown:
    """A page.

    Args:
        page: a new page of a browser.
        url: its address.

    Attributes:
        complaints: errors and warnings on its console.
        foreign: its requests to other origins.
    """

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        origin = url.partition("#")[0].partition("/timeline")[0]
        self._listeners: list[tuple[Any, Callable[[Any], None]]] = [
            ("console", lambda each: self._note(each.type, each.text)),
            ("pageerror", lambda each: self._note("error", str(each))),
            ("request", lambda each: self._ask(each.url, origin)),
        ]
        for name, listener in self._listeners:
            page.on(name, listener)
        page.goto(url)

    def expect_no_answers(self) -> None:
        """The broker was away: a browser complains of that, whatever a page does."""
        self.complaints = [each for each in self.complaints if "net::ERR_" not in each]

    def leave(self) -> None:
        """Leaves the page blank, for the next test that takes it."""
        for name, listener in self._listeners:
            self.page.remove_listener(name, listener)
        self.page.mouse.move(0, 0)
        self.page.goto("about:blank")

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(text)

    def _ask(self, url: str, origin: str) -> None:
        if not url.startswith((origin, "data:")):
            self.foreign.append(url)

    @property
    def rows(self) -> list[str]:
        """The accessible descriptions of the rows in view, from the top."""
        labels: list[str] = self.page.evaluate(
            """() => kohort.chart.draw() ?? [...document.querySelectorAll("#rows .row")]
              .filter((row) => row.querySelector(".label").offsetParent)
              .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
              .map((row) => row.querySelector(".label").ariaLabel)"""
        )
        return labels

    @property
    def panel(self) -> Locator:
        """The explanation."""
        return self.page.locator("#panel")

    @property
    def focused(self) -> str:
        """The accessible name of the focused element."""
        name: str = self.page.evaluate(
            "() => document.activeElement.ariaLabel || document.activeElement.innerText"
        )
        return name

    @property
    def span(self) -> tuple[float, float]:
        """From when to when the chart shows, ms after the first event."""
        first, last = self.page.evaluate("() => [kohort.chart.from, kohort.chart.to]")
        return first, last

    def mark(self, text: str) -> Locator:
        """The mark that is called so."""
        return self.page.locator(f'.mark:not([hidden])[aria-label*="{text}"]').first

    def colour(self, member: str, at_ms: float) -> str:
        """The name of a lane's colour at a moment."""
        found: str = self.page.evaluate(_COLOUR, [member, at_ms])
        return found

    def state(self, member: str, at_ms: float) -> str:
        """The state of a member at a moment, from the page's model."""
        found: str = self.page.evaluate(
            """([name, at]) => {
              for (const group of kohort.model.groups.values())
                for (const lane of group.lanes)
                  if (lane.name === name) return STATES[lane.stateAt(at)];
              return "unknown";
            }""",
            [member, at_ms],
        )
        return found

    def reddest(self, from_ms: float, to_ms: float) -> int:
        """The largest excess of red over green in a place of the chart, of 255."""
        found: int = self.page.evaluate(_REDDEST, [from_ms, to_ms])
        return found

    def press(self, *keys: str) -> None:
        """Presses keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def settle(self) -> None:
        """Waits until the chart is drawn, and nothing glides."""
        self.page.evaluate(
            """() => new Promise((resolve) => {
              let last = "";
              const look = () => {
                const now = `${kohort.chart.from}/${kohort.chart.to}`;
                if (now === last && !kohort.chart.frame) resolve();
                else { last = now; requestAnimationFrame(() => setTimeout(look, 40)); }
              };
              look();
            })"""
        )

    def until(self, condition: str, argument: Any = None) -> None:
        """Waits until this is so in the page."""
        self.page.wait_for_function(condition, arg=argument, timeout=LOAD_MS)

    def evaluate(self, code: str, argument: Any = None) -> Any:
        """Runs JavaScript in the page."""
        return self.page.evaluate(code, argument)


Show = Callable[..., Shown]
"""Opens a page of some events, or of an address; with settings of the browser."""
