"""Headless Chromium, and the contrast of the texts in a page."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

ENOUGH = 4.5
"""Contrast of text that the Web Content Accessibility Guidelines (AA) require."""

CONTRAST = """
  const canvas = document.createElement("canvas");
  const probe = canvas.getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    probe.clearRect(0, 0, 1, 1);
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    return [...probe.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => rgb(colour).slice(0, 3)
    .map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const texts = (skipped) => [...document.querySelectorAll("body *")].filter(
    (element) => [...element.childNodes].some(
      (node) => node.nodeType === 3 && node.data.trim()
    ) && element.checkVisibility() && !element.closest(skipped)
  );
  const ground = (element, page) => {
    for (let each = element; each; each = each.parentElement) {
      const { backgroundColor } = getComputedStyle(each);
      if (rgb(backgroundColor)[3] === 255) return backgroundColor;
    }
    return page;
  };
"""
"""JavaScript for the beginning of a function.

`contrast(a, b)` is that of two colours, `texts(skipped)` the visible elements with text
outside of a selector, and `ground(element, page)` the colour behind an element.
"""


def _missing(what: str) -> NoReturn:
    """Skips if there is no browser; in CI there must be one, so fails."""
    reason = f"not on this machine: {what}"
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"{reason}; CI looks at pages in a browser")
    pytest.skip(reason)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The installed browser, or the one that Playwright has downloaded."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("Playwright for Python")
    with sync_playwright() as playwright:
        fetched = playwright.chromium.executable_path
        found = next(filter(None, map(shutil.which, NAMES)), None)
        path = found or (fetched if Path(fetched).exists() else None)
        if path is None:
            _missing("Chromium")
        started = playwright.chromium.launch(executable_path=path)
        yield started
        started.close()
