"""The page `index.html` that `reproduce --posterior` writes. It needs no other file."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from schedbed.deploy.papers import paper_file, terminal
from schedbed.deploy.papers.posterior.claim_shares import (
    FEW,
    ClaimShare,
    Draws,
    fitting,
    misses,
    share,
    shares_of_claims,
)
from schedbed.deploy.papers.posterior.prior import OpenParameter, Posterior, PrintedFit
from schedbed.deploy.papers.verdict import wanted
from schedbed.deploy.results.page import templates

Row = Sequence[str]


def summary(paper: str, draws: Draws) -> str:
    """Return a sentence with the number of clusters that match the paper, and a warning for few clusters."""
    fits = fitting(draws)
    found = share(len(fits), len(draws))
    told = f"{found} of the drawn clusters fit what the paper prints." if draws else "No cluster was drawn."
    if len(fits) < FEW:
        told += f" Fewer than {FEW} say nothing about the claims."
    return told


def claim_rows(claims: Sequence[ClaimShare]) -> list[Row]:
    """Return the rows of the table of claims, as strings.

    The columns are the claim, the paper's value, the criterion, our median, and the share of matching
    clusters on which the claim holds.
    """
    return [
        (
            f"{claim.key}: {claim.said.what}",
            "-" if claim.said.value is None else terminal.with_unit(claim.said.value, claim.said.unit),
            wanted(claim.said),
            "-" if claim.middle is None else terminal.number(claim.middle),
            str(claim.share),
        )
        for claim in claims
    ]


def fit_rows(posterior: Posterior, draws: Draws) -> list[Row]:
    """Return the rows of the table of printed values that a drawn cluster must match, as strings.

    The columns are the value's name, its place in the paper, the paper's number, the tolerance, the reason
    for the tolerance, and the number of draws that ended because they missed the value.
    """
    ended = misses(draws)
    return [
        (
            fit.what,
            fit.where,
            "-" if fit.value is None else terminal.with_unit(fit.value, fit.unit),
            _tolerance(fit),
            fit.why,
            str(ended.get(key, 0)),
        )
        for key, fit in posterior.fits.items()
    ]


def prior_rows(posterior: Posterior) -> list[Row]:
    """Return the rows of the table of unknown parameters, as strings.

    The columns are the parameter's name, its range, and the reason for the range.
    """
    return [(each.what, _range(each), each.why) for each in posterior.prior.values()]


CLAIM_HEADS = ("claim", "paper", "holds when", "our median", "holds on")
FIT_HEADS = ("printed", "where", "paper", "fits when", "why this tolerance", "draws that end with a miss")
PRIOR_HEADS = ("open", "drawn from", "why this range")


def text(content: Mapping[str, Any], folder: Path) -> str:
    """Return the HTML of the page for the content of posterior.json. The plots in `folder` are embedded."""
    paper, draws = content["paper"], content["draws"]
    said = paper_file.load(paper)
    posterior = said.posterior
    assert posterior is not None
    picture = base64.b64encode((folder / content["figure"]).read_bytes()).decode("ascii")
    claims = claim_rows(shares_of_claims(paper, draws))
    tables = [
        ("On which share of the clusters that fit a claim holds", CLAIM_HEADS, claims),
        ("What a cluster must fit, in the order of the simulations", FIT_HEADS, fit_rows(posterior, draws)),
        ("What the paper leaves open", PRIOR_HEADS, prior_rows(posterior)),
    ]  # fmt: skip
    body = "".join(f"<h2>{escape(head)}</h2>{_table(heads, rows)}" for head, heads, rows in tables)
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>Clusters that fit {escape(paper)}</title>"
        f"<style>{templates.style()}</style></head><body><header><h1>Clusters that fit {escape(said.title)}</h1>"
        f"<p class='facts'>{len(draws)} draws, seed {content['seed']}, {content['wall_start']}</p></header><main>"
        f"<p>{escape(posterior.about)}</p><p><b>{escape(summary(paper, draws))}</b></p>"
        f"<img alt='our values on the clusters that fit, a plot for each claim' "
        f"src='data:image/svg+xml;base64,{picture}'>{body}</main></body></html>\n"
    )


def _table(heads: Row, rows: Sequence[Row]) -> str:
    lines = ["".join(f"<td class='text'>{escape(cell)}</td>" for cell in row) for row in rows]
    head = "".join(f"<th class='text'>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _tolerance(fit: PrintedFit) -> str:
    low, high = fit.holds.bounds(fit.value)
    if low == high:
        return f"{terminal.number(low)}"
    edges = [("at least", low), ("at most", high)]
    return ", ".join(f"{word} {terminal.number(edge)}" for word, edge in edges if abs(edge) != float("inf"))


def _range(each: OpenParameter) -> str:
    if each.choices is not None:
        return f"{', '.join(terminal.number(choice) for choice in each.choices)} {each.unit}"
    assert each.low is not None and each.high is not None
    scale = ", on a logarithmic scale" if each.logarithmic else ""
    return f"{terminal.number(each.low)} to {terminal.number(each.high)} {each.unit}{scale}"
