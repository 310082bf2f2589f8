"""Figures to reach: a measured quantity with its target, shown side by side and written as markdown rows."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

HEADER = "| figure | target | median (min..max) | |\n|---|---|---|---|\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One quantity: a value a repeat, and the range that the median must be in; without a range it only informs.

    `unit` is written behind numbers; "%" and "x" join them without a space.
    """

    name: str
    values: Sequence[float]
    unit: str = ""
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        """Of all repeats."""
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        """met, missed, or nothing when there is no target."""
        if self.low is None and self.high is None:
            return ""
        above = self.low is None or self.median >= self.low
        return "met" if above and (self.high is None or self.median <= self.high) else "missed"

    @property
    def target(self) -> str:
        """The range in words."""
        if self.low is not None and self.high is not None:
            return f"{show(self.low)} to {show(self.high)}{self._unit}"
        if self.high is not None:
            return f"<= {show(self.high)}{self._unit}"
        return f">= {show(self.low)}{self._unit}" if self.low is not None else ""

    @property
    def measured(self) -> str:
        """The median and, of several values, the least and the greatest."""
        median = f"{show(self.median)}{self._unit}"
        if len(self.values) == 1:
            return median
        return f"{median} ({show(min(self.values))}..{show(max(self.values))})"

    @property
    def _unit(self) -> str:
        return self.unit if self.unit in ("", "%", "x") else f" {self.unit}"


def show(value: float) -> str:
    """About three digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def markdown(figures: Sequence[Figure]) -> str:
    """A row a figure, to be put below `HEADER`."""
    rows = []
    for figure in figures:
        name = f"{figure.name} ({figure.note})" if figure.note else figure.name
        rows.append(f"| {name} | {figure.target} | {figure.measured} | {figure.verdict} |\n")
    return "".join(rows)


def publish(title: str, figures: Sequence[Figure], out: Path | None) -> None:
    """Prints the table; adds it to the markdown file `out`, which gets a header when it is new."""
    table = Table("figure", "target", "median (min..max)", "", title=title, title_justify="left")
    for figure in figures:
        name = f"{figure.name}\n  {figure.note}" if figure.note else figure.name
        table.add_row(name, figure.target, figure.measured, figure.verdict)
    Console().print(table)
    if out is not None:
        new = not out.exists() or out.stat().st_size == 0
        with out.open("a", encoding="utf-8") as file:
            file.write((HEADER if new else "") + f"| **{title}** | | | |\n" + markdown(figures))


def parser(about: str | None) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("--repeats", type=_positive, default=5, help="medians are over so many (default 5)")
    made.add_argument("--out", type=Path, help="markdown file to add the table to")
    return made


def _positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def say(text: str) -> None:
    """A line on how far the benchmark is."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
