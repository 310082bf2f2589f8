"""Render `arena.html` from the summary: one page that needs no other file. All that users named is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any

WIDTH, HEIGHT, EDGE = 560, 320, 50
Summary = Mapping[str, Any]


def text(summary: Summary, workloads: Sequence[str]) -> str:
    """Return the HTML text."""
    style = (
        resources.files("schedbed.deploy.results").joinpath("page", "style.css").read_text(encoding="utf-8")
    )
    page = resources.files("schedbed.deploy.arena").joinpath("page.html").read_text(encoding="utf-8")
    policies = summary["policies"]
    return Template(page).substitute(
        style=style,
        facts=f"{len(policies)} policies, {len(workloads)} workloads, {summary['seeds']} seeds, in virtual time",
        rank_note=_rank_note(summary["rank"]),
        ranks=_ranks(summary),
        heat=_heat(summary, workloads),
        pareto=_pareto(summary),
        why=_why(summary, workloads),
    )


def _rank_note(rank: Summary) -> str:
    if rank["critical"] is None:
        return "Mean ranks by mean slowdown, 1 is best. Too few policies or workloads for intervals."
    return (
        f"Mean ranks by mean slowdown over {rank['blocks']} workloads, 1 is best. "
        f"Policies whose ranks differ by less than {rank['critical']:.2f} (Nemenyi, 5%) are not told apart: their "
        f"intervals meet. Friedman's test: p = {rank['p']:.2g}. A lost cell ranks last."
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def _ranks(summary: Summary) -> str:
    columns = list(next(iter(summary["policies"].values()), {}))
    heads = "".join(f"<th>{escape(name)}</th>" for name in ("rank", "interval", *columns))
    rows: list[str] = []
    for policy, mean in summary["rank"]["ranks"].items():
        interval = summary["rank"]["ci95"][policy]
        shown = f"[{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "–"
        cells = "".join(f"<td>{_number(summary['policies'][policy][name])}</td>" for name in columns)
        rows.append(f"<tr><th>{escape(policy)}</th><td>{mean:.2f}</td><td>{shown}</td>{cells}</tr>")
    return f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _heat(summary: Summary, workloads: Sequence[str]) -> str:
    by = summary["ranked_by"]
    cells = summary["cells"]
    spans: dict[str, tuple[float, float]] = {}
    for name in workloads:
        known = [each[name][by] for each in cells.values() if each[name][by] is not None]
        spans[name] = (min(known), max(known)) if known else (0.0, 0.0)

    def cell(found: Summary, name: str) -> str:
        value, (low, high) = found[by], spans[name]
        title = escape(found["why"], quote=True)
        if value is None:
            return f'<td class="lost" title="{title}">lost</td>'
        hue = 120 * (1 - (value - low) / (high - low)) if high > low else 120
        return f'<td style="background:hsl({hue:.0f},55%,72%)" title="{title}">{value:.2f}</td>'

    heads = "".join(f"<th>{escape(name)}</th>" for name in workloads)
    rows = "".join(
        f"<tr><th>{escape(policy)}</th>{''.join(cell(mine[name], name) for name in workloads)}</tr>"
        for policy, mine in cells.items()
    )
    return f'<table class="heat"><thead><tr><th></th>{heads}</tr></thead><tbody>{rows}</tbody></table>'


def _pareto(summary: Summary) -> str:
    by = summary["ranked_by"]
    points = {
        policy: (each[by], each["jain"])
        for policy, each in summary["policies"].items()
        if not each["lost_cells"] and each[by] is not None and each["jain"] is not None
    }
    if not points:
        return '<p class="note">No policy has all its cells.</p>'
    xs, ys = zip(*points.values(), strict=True)
    dots: list[str] = []
    for policy, (slowdown, jain) in points.items():
        x = EDGE + (WIDTH - 3 * EDGE) * _part(slowdown, min(xs), max(xs))
        y = HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * _part(jain, min(ys), max(ys))
        fill = "currentColor" if policy in summary["front"] else "none"
        dots.append(
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4" stroke="currentColor" fill="{fill}"/>'
            f'<text x="{x + 7:.0f}" y="{y + 4:.0f}">{escape(policy)}</text>'
        )
    axes = (
        f'<text x="{EDGE}" y="{HEIGHT - 12}">mean slowdown, {min(xs):.2f} to {max(xs):.2f} (left is better)</text>'
        f'<text x="{EDGE}" y="18">Jain fairness, {min(ys):.3f} to {max(ys):.3f} (up is better)</text>'
    )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">{axes}{"".join(dots)}</svg>'


def _part(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _why(summary: Summary, workloads: Sequence[str]) -> str:
    rows = "".join(
        f'<tr><th>{escape(name)}</th><th>{escape(policy)}</th><td class="text">{escape(mine[name]["why"])}</td></tr>'
        for name in workloads
        for policy, mine in summary["cells"].items()
    )
    return f"<table><tbody>{rows}</tbody></table>"
