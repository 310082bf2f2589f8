"""Keep the draws of `schedbed reproduce --posterior` as result files, and render them as Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.catalogue import PAPERS
from schedbed.deploy.papers.posterior import claim_plots
from schedbed.deploy.papers.posterior.claim_shares import fitting, share, shares_of_claims
from schedbed.deploy.papers.posterior.posterior_page import (
    CLAIM_HEADS,
    FIT_HEADS,
    PRIOR_HEADS,
    claim_rows,
    fit_rows,
    prior_rows,
    summary,
)
from schedbed.deploy.papers.posterior.posterior_run import RESULTS
from tests.bench.figures import rounded
from tests.pages.table_cells import cell

FOLDER = "posterior"
DIGITS = 5

Content = Mapping[str, Any]


def keep(simulated: Path, folder: Path) -> None:
    """Write the result file of a paper into `folder` from the posterior.json in `simulated`."""
    content: Content = json.loads((simulated / RESULTS).read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    kept = {key: content[key] for key in ("paper", "seed", "versions", "host", "took_s")}
    kept["date"] = content["wall_start"][:10]
    head = json.dumps(kept, indent=1).removesuffix("\n}")
    lines = ",\n".join(f"  {json.dumps(rounded(draw, DIGITS), allow_nan=False)}" for draw in content["draws"])
    text = f'{head},\n "draws": [\n{lines}\n ]\n}}\n'
    (folder / f"{content['paper']}.json").write_text(text, encoding="utf-8")


def load(folder: Path) -> list[Content]:
    """Return the contents of the result files in `folder`, in the order of the papers."""
    paths = [folder / f"{paper}.json" for paper in PAPERS]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def tables(folder: Path) -> dict[str, str]:
    """Return a dictionary from places in docs/posterior.md to Markdown: an overview, and a section for each
    paper.
    """
    kept = load(folder)
    return {"overview": overview(kept), "papers": "\n".join(_section(content) for content in kept)}


def overview(kept: Sequence[Content]) -> str:
    """Return a table with a row for each paper: how many drawn clusters fit its figures, and the time of all
    draws.
    """
    rows = [
        (
            content["paper"],
            str(share(len(fitting(content["draws"])), len(content["draws"]))),
            f"{content['took_s'] / 60:.1f} min",
        )
        for content in kept
    ]
    return _table(("paper", "drawn clusters that fit", "took"), rows)


def draw(kept: Sequence[Content], folder: Path) -> None:
    """Write the plots of each paper as PAPER.svg into `folder`."""
    for content in kept:
        claim_plots.draw(
            folder / f"{content['paper']}.svg", shares_of_claims(content["paper"], content["draws"])
        )


def _section(content: Content) -> str:
    paper, draws = content["paper"], content["draws"]
    said = paper_file.load(paper)
    assert said.posterior is not None
    host = f"{content['host']['cores']} cores, {content['host']['system']}"
    return "\n".join(
        [
            f"## {paper}: {said.title}\n",
            f"`schedbed reproduce --posterior {paper} --draws {len(draws)}` with seed {content['seed']} on "
            f"{content['date']}, {content['took_s'] / 60:.1f} minutes on {host}.\n",
            f"{said.posterior.about.strip()}\n",
            f"**{summary(paper, draws)}**\n",
            f"![Our values on the clusters of {paper} that fit, a plot for each claim]({FOLDER}/{paper}.svg)\n",
            _table(CLAIM_HEADS, claim_rows(shares_of_claims(paper, draws))),
            "What a cluster must fit, in the order of the simulations:\n",
            _table(FIT_HEADS, fit_rows(said.posterior, draws)),
            "What the paper leaves open:\n",
            _table(PRIOR_HEADS, prior_rows(said.posterior)),
        ]
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell(each) for each in line)} |\n" for line in lines)
