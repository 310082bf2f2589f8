"""Measured quantities with their targets, which are printed as a table and kept in result files."""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from schedbed.deploy.hostwatch import describe_host

ROOT = Path(__file__).resolve().parents[2]
PIVOT = " | "
"""Parts the row from the column in the names of figures that a page shows as one table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured quantity: one value for each repeat, and the range in which their median must lie.

    Without a range the figure only informs. `unit` is written after numbers; "%" and "x" follow them without
    a space. `median_of` is the number of repeats if only their median was kept, as the single value.
    """

    name: str
    values: Sequence[float]
    unit: str = ""
    low: float | None = None
    high: float | None = None
    note: str = ""
    median_of: int | None = None

    @property
    def repeats(self) -> int:
        """Return the number of repeats whose median the figure shows."""
        return self.median_of or len(self.values)

    @property
    def median(self) -> float:
        """Return the median of all repeats."""
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        """Return "met" or "missed", or an empty text if the figure has no target."""
        if self.low is None and self.high is None:
            return ""
        above = self.low is None or self.median >= self.low
        return "met" if above and (self.high is None or self.median <= self.high) else "missed"

    @property
    def target(self) -> str:
        """Return the range as text, such as "<= 3 s", or an empty text."""
        if self.low is not None and self.high is not None:
            return f"{show(self.low)} to {show(self.high)}{self._unit}"
        if self.high is not None:
            return f"<= {show(self.high)}{self._unit}"
        return f">= {show(self.low)}{self._unit}" if self.low is not None else ""

    @property
    def measured(self) -> str:
        """Return the median as text, followed by the least and the greatest value if there are several."""
        median = f"{show(self.median)}{self._unit}"
        if len(self.values) == 1:
            return median
        return f"{median} ({show(min(self.values))}..{show(max(self.values))})"

    @property
    def _unit(self) -> str:
        return self.unit if self.unit in ("", "%", "x") else f" {self.unit}"


def pivoted(figures: Sequence[Figure]) -> dict[str, dict[str, Figure]]:
    """Return a dictionary from rows to dictionaries from columns to figures.

    Row and column are the parts of a figure's name before and after `PIVOT`.
    """
    cells: dict[str, dict[str, Figure]] = {}
    for figure in figures:
        row, _, column = figure.name.partition(PIVOT)
        cells.setdefault(row, {})[column] = figure
    return cells


def rounded(value: Any, digits: int) -> Any:
    """Return `value` with floats rounded to `digits` digits, also within lists and mappings."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {key: rounded(each, digits) for key, each in value.items()}
    return [rounded(each, digits) for each in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """The figures of one benchmark, with the host, date and command of the measurement.

    `carried_over` names the place that older figures were copied from; `command` did not measure them on
    `date`.
    """

    title: str
    date: str
    host: str
    command: str
    figures: Sequence[Figure]
    carried_over: str = ""

    @classmethod
    def measured_now(cls, title: str, figures: Sequence[Figure]) -> ResultFile:
        """Return the result file of figures that this process has just measured."""
        script = Path(sys.argv[0]).resolve()
        named = script.relative_to(ROOT) if script.is_relative_to(ROOT) else script.name
        return cls(
            title=title,
            date=today(),
            host=host_line(),
            command=shlex.join(["python", str(named), *sys.argv[1:]]),
            figures=figures,
        )

    @classmethod
    def load(cls, path: Path) -> ResultFile:
        """Read a result file. Raise TypeError if a key is missing or unknown."""
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**content, "figures": [Figure(**figure) for figure in content["figures"]]})

    def save(self, path: Path) -> None:
        """Write the file with one figure a line, so that diffs of measurements are readable."""
        content = asdict(self)
        figures = ",\n".join(f"  {json.dumps(_said(figure))}" for figure in content.pop("figures"))
        head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in content.items())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{\n{head} "figures": [\n{figures}\n ]\n}}\n', encoding="utf-8")


def _said(figure: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a figure without those that are empty."""
    return {key: value for key, value in figure.items() if value not in (None, "")}


def host_line() -> str:
    """Return this host's cores, memory and system in words."""
    host = describe_host()
    return f"{host['cores']} cores, {host['memory_bytes'] / 2**30:.0f} GiB, {host['system']}"


def today() -> str:
    """Return the present date in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d")


def show(value: float) -> str:
    """Return the number as text with about three digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def publish(name: str, title: str, figures: Sequence[Figure], out: Path | None) -> None:
    """Print the figures as a table.

    With `out`, also write the result file `out`/`name`.json, replacing an older one.
    """
    table = Table("figure", "target", "median (min..max)", "", title=title, title_justify="left")
    for figure in figures:
        label = f"{figure.name}\n  {figure.note}" if figure.note else figure.name
        table.add_row(label, figure.target, figure.measured, figure.verdict)
    Console().print(table)
    if out is not None:
        ResultFile.measured_now(title, figures).save(out / f"{name}.json")


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return a parser for command lines with the options that all benchmarks have.

    `about` is its description.
    """
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("--repeats", type=_positive, default=5, help="runs that a median is over (default 5)")
    made.add_argument("--out", type=Path, help="folder for the result file, such as docs/results/figures")
    return made


def _positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def say(text: str) -> None:
    """Print a line about the progress of the benchmark."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
