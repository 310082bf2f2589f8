"""The page `arena.html`, one self-contained file. Jinja escapes all texts of users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from schedbed.deploy.results.page import templates

WIDTH, HEIGHT, EDGE = 560, 320, 50
GREEN = 120  # The hue of the best value, in degrees.
AGREE = 0.8
"""The least rank correlation at which the page calls two orders equal."""
Summary = Mapping[str, Any]


def text(summary: Summary, workloads: Sequence[str]) -> str:
    """Return the page. `workloads` are the heat map's columns."""
    page = resources.files("schedbed.deploy.arena").joinpath("page.html").read_text(encoding="utf-8")
    columns = list(next(iter(summary["policies"].values()), {}))
    return templates.fill(
        page,
        style=templates.style(),
        seeds=summary["seeds"],
        rank_note=_rank_note(summary["rank"]),
        columns=columns,
        ranks=list(_ranks(summary, columns)),
        workloads=workloads,
        heat=list(_heat(summary, workloads)),
        plot=_plot(summary),
        cells=summary["cells"],
        live=_live(summary["live"]),
    )


def _rank_note(rank: Summary) -> str:
    if rank["critical"] is None:
        return "Mean ranks by mean slowdown, 1 is best. Too few policies or workloads for intervals."
    return (
        f"Mean ranks by mean slowdown over {rank['blocks']} workloads, 1 is best. "
        f"Policies whose ranks differ by less than {rank['critical']:.2f} (Nemenyi, 5%) are not told apart: their "
        f"intervals meet. Friedman's test: p = {rank['p']:.2g}. A lost cell ranks last."
    )


def _live(found: Summary | None) -> Summary | None:
    """Return note and rows about live runs from the summary's entry `live`, or None."""
    if found is None:
        return None
    runs = f"{found['runs']} runs of {', '.join(found['workloads'])}"
    left_out = f"; {len(found['left_out'])} left out" if found["left_out"] else ""
    return {
        "note": f"{rank_agreement(found)} Mean slowdowns over {runs}{left_out}.",
        "left_out": found["left_out"],
        "rows": [
            {"policy": policy, "live": _number(each["live"]), "simulated": _number(each["simulated"])}
            for policy, each in sorted(found["policies"].items(), key=lambda item: item[1]["live"])
        ],
    }


def rank_agreement(found: Summary) -> str:
    """Say whether live and simulated runs rank alike, by the summary's entry `live`."""
    if found["rho"] is None:
        return "No live run of the leaders could be judged."
    between = found["ci95"]
    interval = f" [{between[0]:.2f}, {between[1]:.2f}]" if between else ""
    verdict = "agree" if found["rho_of_means"] >= AGREE else "do not agree"
    return (
        f"Live and simulated {verdict} on the order of the leaders: Spearman's rank correlation of their mean "
        f"slowdowns is {found['rho_of_means']:.2f}, within a run on average {found['rho']:.2f}{interval}."
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def _ranks(summary: Summary, columns: Sequence[str]) -> Iterator[Summary]:
    for policy, mean in summary["rank"]["ranks"].items():
        interval = summary["rank"]["ci95"][policy]
        yield {
            "policy": policy,
            "rank": f"{mean:.2f}",
            "interval": f"[{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "–",
            "means": [_number(summary["policies"][policy][name]) for name in columns],
        }


def _heat(summary: Summary, workloads: Sequence[str]) -> Iterator[Summary]:
    """Yield the heat map's rows, a colored value per workload; without color for a failed simulation."""
    by, cells = summary["ranked_by"], summary["cells"]
    spans: dict[str, tuple[float, float]] = {}
    for name in workloads:
        known = [each[name][by] for each in cells.values() if each[name][by] is not None]
        spans[name] = (min(known), max(known)) if known else (0.0, 0.0)
    for policy, mine in cells.items():
        row: list[Summary] = []
        for name in workloads:
            value, why = mine[name][by], mine[name]["why"]
            low, high = spans[name]
            if value is None:
                row.append({"hue": None, "why": why})
            else:
                share = (value - low) / (high - low) if high > low else 0.0
                row.append({"hue": round(GREEN * (1 - share)), "value": f"{value:.2f}", "why": why})
        yield {"policy": policy, "cells": row}


def _plot(summary: Summary) -> Summary | None:
    """Return the policies' pixels in the plot of slowdown against fairness, or None without any."""
    points = summary["points"]
    if not points:
        return None
    xs, ys = zip(*points.values(), strict=True)
    dots = [
        {
            "x": round(EDGE + (WIDTH - 3 * EDGE) * _part(slowdown, min(xs), max(xs))),
            "y": round(HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * _part(jain, min(ys), max(ys))),
            "first": policy in summary["front"],
            "policy": policy,
        }
        for policy, (slowdown, jain) in points.items()
    ]
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "edge": EDGE,
        "slowdowns": f"{min(xs):.2f} to {max(xs):.2f}",
        "fairness": f"{min(ys):.3f} to {max(ys):.3f}",
        "dots": dots,
    }


def _part(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5
