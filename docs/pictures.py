"""Makes the pictures of the documents: ``python -m docs.pictures [NAME ...]``, or ``make pictures``.

Each is a page of recorded evidence (``tests/golden``) in Chromium, as its reader sees it first, down to a panel, in few
colours. They are written to ``docs/images``; a test makes them again and compares them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page

import tidemark
from docs.page_browser import WIDTH, browser, opened
from tidemark.errors import TidemarkError

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "images"
GOLDEN = ROOT / "tests" / "golden"
COLOURS = 256
INDEX_HEIGHT = 2_050
_BOTTOM = """
title => {
  const captions = [...document.querySelectorAll(".caption")];
  const at = captions.findIndex((one) => one.textContent.startsWith(title));
  if (at < 0) throw new Error(`no panel is called ${title}`);
  const next = captions[at + 1];
  const end = next ? next.getBoundingClientRect().top - 8
    : document.querySelector("#view .picture").getBoundingClientRect().bottom + 4;
  return Math.ceil(end + scrollY);
}
"""


@dataclass(frozen=True)
class Picture:
    """Recorded evidence, and the last panel that is shown; of a folder of runs it is the index, from its top.

    ``shows_batch``: the batch that the page opens on is shown, instead of the life of a row.
    """

    evidence: str
    until: str = ""
    shows_batch: bool = False


PICTURES = {
    "demo": Picture("evidence/left_outer_demo", "Rows out"),
    "left-semi": Picture("evidence/left_semi_readme", "Rows out that"),
    "killed-driver": Picture("evidence/faults_spark_sink_as_exactly_once", "Rows out", shows_batch=True),
    "audit": Picture("evidence/audit_spark_3_5", "Rows out"),
    "soak": Picture("soak"),
}


def page_of(picture: Picture, folder: Path) -> Path:
    """The page of a copy of the evidence, which is made in a folder."""
    copy = shutil.copytree(GOLDEN / picture.evidence, folder / Path(picture.evidence).name)
    return tidemark.report(copy)


def take(shown: Browser, picture: Picture, page: Path) -> Image.Image:
    """The picture of a page, in few colours."""
    with opened(shown, page) as found:
        if picture.until:
            found.wait_until_drawn()
            if picture.shows_batch:
                found.page.get_by_role("button", name="back to the batch").click()
            _fit(found.page, int(found.page.evaluate(_BOTTOM, picture.until)))
        else:
            _fit(found.page, INDEX_HEIGHT)
        taken = Image.open(BytesIO(found.page.screenshot()))
    return taken.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


def _fit(page: Page, height: int) -> None:
    """Make the window as high as the picture, and wait until the page is drawn in it."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def make(names: Sequence[str], target: Path) -> list[Path]:
    """Make these pictures; gives the files. Raises ``TestbedError`` if there is no Chromium."""
    target.mkdir(parents=True, exist_ok=True)
    files = []
    with browser() as shown, tempfile.TemporaryDirectory() as folder:
        for name in names:
            picture = PICTURES[name]
            file = target / f"{name}.png"
            take(shown, picture, page_of(picture, Path(folder))).save(file, optimize=True)
            files.append(file)
    return files


def main(arguments: Sequence[str]) -> int:
    """Make what was named, or all; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs.pictures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(PICTURES)}; or all")
    parser.add_argument("--to", type=Path, default=FOLDER, metavar="DIR", help="another folder")
    args = parser.parse_args(arguments)
    if unknown := sorted({*args.names} - {*PICTURES}):
        parser.error(f"no such picture: {', '.join(unknown)}; there are {', '.join(PICTURES)}")
    try:
        for file in make(args.names or list(PICTURES), args.to):
            print(f"{file}: {file.stat().st_size:,} bytes")
    except TidemarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
