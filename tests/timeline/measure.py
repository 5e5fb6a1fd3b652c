"""Costs of the page in a browser: ``python -m tests.timeline.measure``.

Prints a row per case: the time from opening the page to the complete drawing; and,
while the wheel zooms and the mouse drags, the time of drawing and between frames. Each
number is the least of three runs: other processes only add to it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from playwright.sync_api import Browser, Page, sync_playwright
from tests.timeline import streams

from kohort.control.timeline.packing import Packing

CASES: dict[str, Callable[[], list[streams.Event]]] = {
    "1,000 members, 19,000 events": streams.deployment,
    "100,000 events, 20 groups": streams.many,
}
WATCH = """() => {
  window.gaps = [];
  kohort.chart.frames.length = 0;
  let last = performance.now();
  const frame = (now) => {
    gaps.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""
TELL = """() => {
  const up = (a, b) => a - b;
  const at = (all, part) => all.sort(up)[Math.floor((all.length - 1) * part)];
  const { frames } = kohort.chart;
  return [at(frames, 0.5), at(frames, 0.95), at(gaps, 0.5), at(gaps, 0.95),
          performance.memory.usedJSHeapSize / 1e6];
}"""


def move(page: Page) -> None:
    """Zooms in and out, and drags."""
    page.mouse.move(800, 500)
    page.keyboard.down("Control")
    for turn in range(60):
        page.mouse.wheel(0, -60 if turn < 30 else 60)
    page.keyboard.up("Control")
    page.mouse.down()
    for step in range(60):
        page.mouse.move(800 - 6 * step, 500 - 3 * step)
    page.mouse.up()


def measure(browser: Browser, file: Path, *, is_low: bool) -> list[float]:
    """Load in s; drawing, and frames, each median and 95th percentile in ms; MB."""
    page = browser.new_page(viewport={"width": 1400, "height": 820})
    began = time.perf_counter()
    page.goto(file.as_uri())
    page.wait_for_selector("#status[data-status=file]", timeout=120_000)
    load = time.perf_counter() - began
    if is_low:
        page.evaluate("() => kohort.chart.setRowHeight(-9)")
    page.evaluate(WATCH)
    move(page)
    told: Any = page.evaluate(TELL)
    page.close()
    return [load, *told]


def main() -> None:
    """Measures all cases, and prints them."""
    click.echo(f"{'':42} load s   draw ms p50 p95   frame ms p50 p95   heap MB")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for name, make in CASES.items():
            file = Path(folder) / "page.html"
            lines = ((json.dumps(event).encode(), event) for event in make())
            file.write_text(Packing(lines).page(name).html)
            for is_low in (False, True):
                runs = [measure(browser, file, is_low=is_low) for _ in range(3)]
                load, *rest = map(min, zip(*runs, strict=True))
                row = f"{name}{', lowest rows' if is_low else ''}"
                click.echo(
                    " ".join([f"{row:42} {load:6.2f}", *(f"{n:9.1f}" for n in rest)])
                )
        browser.close()


if __name__ == "__main__":
    main()
