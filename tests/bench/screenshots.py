"""Take the pictures of docs/pictures.md: the report, the live page and the arena's page, in two widths.

    python -m tests.bench.screenshots [--only report,live,arena] [--report DIR] [--out docs]

The report is that of a simulated run, or of the run whose folder `--report` names. The live page is that of a
live run, which is stopped afterwards. The arena's page is that of docs/results/arena. Needs a headless
Chromium.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schedbed.deploy.results import html_report
from tests.bench.figures import ROOT, say
from tests.bench.proctree import SCHEDBED
from tests.harness.browser import Picture, look

WIDTHS = {"": (1280, 1900), "-narrow": (390, 2000)}
"""Width and greatest height of a picture in pixels, by the end of its name."""
SIMULATED = ("run", "quickstart", "--machines", "sim", "--repeats", "5", "--no-live")
LIVE = ("run", "quickstart", "--web", "0", "--read-only", "--no-live")
UP_S, STOP_S = 90.0, 60.0
BUSY = """
new Promise((done) => {
  const shown = () => document.querySelectorAll("#decisions tr").length > 40;
  const look = () => (shown() ? setTimeout(done, 1000) : setTimeout(look, 200));
  look();
})
"""
"""Waits until the live page has decisions to show."""


def take(page: Path | str, name: str, out: Path, script: str = "0") -> None:
    """Take a wide and a narrow picture of `page`, and save them in `out`.

    The page runs `script` before each.
    """
    for end, (width, high) in WIDTHS.items():
        path = out / f"{name}{end}.png"
        look(page, width, [script], picture=Picture(path=path, high=high))
        say(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def report(out: Path, folder: Path | None) -> None:
    """Take pictures of the report of the run in `folder`, rebuilt for this, or of a run that is simulated
    now.
    """
    with tempfile.TemporaryDirectory() as made:
        if folder is None:
            folder = Path(made) / "out"
            subprocess.run(
                [*SCHEDBED, *SIMULATED, "--out", str(folder)], check=True, stdout=subprocess.DEVNULL
            )
        else:
            html_report.rebuild(folder, with_plots=False)
        take(folder / html_report.NAME, "report", out)


def live(out: Path) -> None:
    """Take pictures of the page of a live run in progress."""
    with tempfile.TemporaryDirectory() as made, running(Path(made) / "out") as url:
        take(url, "live", out, BUSY)


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run the command `LIVE` during the block, and yield the address of its live page."""
    process = subprocess.Popen([*SCHEDBED, *LIVE, "--out", str(folder)], stdout=subprocess.DEVNULL)
    try:
        address, until_s = folder / "web-url", time.monotonic() + UP_S
        while not (address.exists() and address.read_text().strip()):
            if process.poll() is not None or time.monotonic() > until_s:
                raise RuntimeError(f"the run served no page within {UP_S:g} s")
            time.sleep(0.2)
        yield address.read_text().strip()
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
        process.wait(STOP_S)


def arena(out: Path) -> None:
    """Take pictures of the page of the arena in docs/results."""
    take(ROOT / "docs" / "results" / "arena" / "arena.html", "arena", out)


def main() -> None:
    """Take the pictures that `--only` names."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--only", default="report,live,arena", help="which pages, with commas between")
    options.add_argument("--report", type=Path, help="the folder of a run; without it one is simulated")
    options.add_argument("--out", type=Path, default=ROOT / "docs")
    given = options.parse_args()
    takers: dict[str, Callable[[], None]] = {
        "report": lambda: report(given.out, given.report),
        "live": lambda: live(given.out),
        "arena": lambda: arena(given.out),
    }
    for name in given.only.split(","):
        takers[name]()


if __name__ == "__main__":
    main()
