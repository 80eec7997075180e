"""Pages in Debian's Chromium without a network: for pictures in documents, tests of pages, and measurements."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tidemark.errors import TestbedError
from tidemark.reports.html_report import BUNDLE

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1280, 900
DRAWN = "picture drawn"
"""The mark that the script of the picture sets once it has been painted."""
DRAWN_MS = 30_000.0
"""Calibration: a page is drawn in 0.3 s on idle cores."""


def chromium() -> str | None:
    """The path of a Chromium; ``None`` if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium without a window. Raises ``TestbedError`` if there is none, or pages would have no picture."""
    path = chromium()
    if path is None:
        raise TestbedError(
            "there is no Chromium to show a page in",
            detail=f"looked for {', '.join(NAMES)} on PATH",
            hint="on Debian: apt-get install chromium",
        )
    if not (BUNDLE / "view.js").is_file():
        raise TestbedError(
            "pages have no picture here", detail=f"{BUNDLE / 'view.js'} was not built", hint="make view"
        )
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
        )
        try:
            yield opened
        finally:
            opened.close()


@dataclass
class OpenedPage:
    """A page that is shown; ``console`` is what was written there, ``asked`` what it asked for besides itself."""

    page: Page
    console: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def wait_until_drawn(self) -> None:
        """Wait for the picture; raises Playwright's ``TimeoutError`` after ``DRAWN_MS``."""
        self.page.wait_for_function(
            "name => performance.getEntriesByName(name).length", arg=DRAWN, timeout=DRAWN_MS
        )

    def drawn_after_s(self) -> float:
        """Seconds from the beginning of the navigation to the painted picture."""
        milliseconds = self.page.evaluate("name => performance.getEntriesByName(name)[0].startTime", DRAWN)
        return float(milliseconds) / 1000


@contextmanager
def opened(
    shown: Browser, path: Path, *, dark: bool = False, size: Sequence[int] = (WIDTH, HEIGHT)
) -> Iterator[OpenedPage]:
    """A page of a file, in a context of its own that has no network."""
    context = shown.new_context(
        viewport={"width": size[0], "height": size[1]}, offline=True, color_scheme="dark" if dark else "light"
    )
    try:
        found = OpenedPage(context.new_page())
        address = path.resolve().as_uri()
        found.page.on("console", lambda message: found.console.append(message.text))
        found.page.on("pageerror", lambda error: found.console.append(str(error)))
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.goto(address)
        found.asked.remove(address)
        yield found
    finally:
        context.close()
