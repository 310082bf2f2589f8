"""The command `reproduce --posterior`: simulates drawn clusters and writes posterior.json and a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schedbed.deploy import hostwatch
from schedbed.deploy.papers.posterior import claim_plots, posterior_page, sampling
from schedbed.deploy.papers.posterior.claim_shares import shares_of_claims
from schedbed.deploy.papers.posterior.sampling import Draw
from schedbed.deploy.workspace import locked, result_folder
from schedbed.tasks.errors import BadInput

RESULTS, PAGE = "posterior.json", "index.html"
SAID_EVERY = 20  # draws

Say = Callable[[str], object]


def posterior(paper: str, *, draws: int | None, seed: int, jobs: int, out: Path | None, say: Say) -> Path:
    """Simulate `draws` randomly drawn clusters for a paper, and return the folder with the results.

    `draws` is by default the number in paper.yaml, and `jobs` clusters are simulated in parallel. The folder
    is `out`, by default `runs/posterior-<time>`. `say` is called with each line of progress. Raises BadInput
    if the folder already has results or the paper has no section `posterior`, and RunFailed if a simulation
    fails.
    """
    count = draws or sampling.posterior_of(paper).draws
    started = datetime.now(UTC)
    folder = result_folder(out, "posterior", started)
    if (folder / RESULTS).exists():
        raise BadInput(f"--out {folder}: holds a posterior already, expected a new or empty folder")
    about = {
        "paper": paper,
        "seed": seed,
        "wall_start": started.isoformat(timespec="seconds"),
        "versions": hostwatch.versions(),
        "host": hostwatch.describe_host(),
    }
    ended: list[Draw] = []

    def done(draw: Draw) -> None:
        ended.append(draw)
        if len(ended) % SAID_EVERY == 0 or len(ended) == count:
            say(f"{len(ended)} of {count} draws, {sum(not each.misses for each in ended)} fit")

    with locked(folder):
        found = sampling.run_draws(paper, count, seed, jobs, done)
        took_s = (datetime.now(UTC) - started).total_seconds()
        content = _save(folder, about | {"took_s": round(took_s, 1)}, found)
    rows = posterior_page.claim_rows(shares_of_claims(paper, content["draws"]))
    say(posterior_page.summary(paper, content["draws"]))
    for what, _, criterion, middle, holds in rows:
        say(f"  {what} ({criterion}): median {middle}, holds on {holds}")
    say(f"Results: {folder}  (open {folder / PAGE})")
    return folder


def _save(folder: Path, about: Mapping[str, Any], found: Sequence[Draw]) -> dict[str, Any]:
    """Write posterior.json, the plots and the page to the folder, and return the content of posterior.json.

    `about` has the keys of posterior.json that do not come from draws.
    """
    figure = f"{about['paper']}.svg"
    content = {**about, "figure": figure, "draws": [draw.to_json() for draw in found]}
    (folder / RESULTS).write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    claim_plots.draw(folder / figure, shares_of_claims(about["paper"], content["draws"]))
    (folder / PAGE).write_text(posterior_page.text(content, folder), encoding="utf-8")
    return content
