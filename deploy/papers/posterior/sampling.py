"""Parallel simulation of randomly drawn clusters, some of which match the values that a paper prints."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from schedbed.deploy.failures import RunFailed
from schedbed.deploy.papers import paper_file
from schedbed.deploy.papers.bench import Bench
from schedbed.deploy.papers.posterior.mini import Mini
from schedbed.deploy.papers.posterior.prior import Drawn, Posterior
from schedbed.deploy.side_by_side import SideWork, side_by_side
from schedbed.deploy.worker_fork import RESULT, STOPPED, Send, WorkEnd
from schedbed.deploy.workspace import base_folder, owned, sweep
from schedbed.tasks.chance import chance
from schedbed.tasks.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDraw:
    """A draw that will be simulated: a random cluster for a paper, determined by its number and the seed."""

    paper: str
    number: int
    seed: int


@dataclass(slots=True, kw_only=True)
class Draw:
    """A draw that was simulated: the parameters of a random cluster, and the values simulated on it.

    `fits` has the simulated values that are compared with the paper's, by key. `misses` is the key of the
    first value that does not match, or empty. `claims` has values only if all values match.
    """

    number: int
    cluster: Drawn
    fits: dict[str, float] = field(default_factory=dict)
    misses: str = ""
    claims: dict[str, float] = field(default_factory=dict)
    took_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the draw as plain JSON values, as stored in posterior.json."""
        return asdict(self)


def posterior_of(paper: str) -> Posterior:
    """Return the section `posterior` of the paper's paper.yaml. Raises BadInput if the file has none."""
    found = paper_file.load(paper).posterior
    if found is None:
        raise BadInput(f"reproduce --posterior {paper}: {paper}/paper.yaml declares no prior")
    return found


def run_draws(paper: str, draws: int, seed: int, jobs: int, done: Callable[[Draw], object]) -> list[Draw]:
    """Simulate `draws` random clusters for a paper and return them in order; `jobs` run in parallel.

    `done` is called with each finished draw. A draw depends only on its number and the seed, so a larger
    number of draws begins with the same draws. Raises RunFailed if a draw fails.
    """
    posterior_of(paper)
    planned = [PlannedDraw(paper=paper, number=number, seed=seed) for number in range(1, draws + 1)]
    found: dict[int, Draw] = {}

    def take(number: int, end: WorkEnd) -> None:
        if end.kind == STOPPED:
            return
        if end.kind != RESULT:
            raise RunFailed(f"draw {number} of {paper}: {end.value}")
        found[number] = Draw(**end.value)
        done(found[number])

    sweep(base_folder())
    with tempfile.TemporaryDirectory(prefix=owned("posterior-"), dir=base_folder()) as scratch:
        works = [
            SideWork(do=partial(simulate, Path(scratch), each), ended=partial(take, each.number))
            for each in planned
        ]
        side_by_side(works, jobs)
    return [found[number] for number in sorted(found)]


def simulate(scratch: Path, planned: PlannedDraw, _: Send) -> dict[str, Any]:
    """Simulate the draw `planned` in a worker process, and return the result as JSON values.

    The runs of the draw are written to a temporary folder below `scratch`, which is deleted afterwards. No
    messages are sent during the simulation.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        return one(planned, Path(folder)).to_json()


def one(planned: PlannedDraw, folder: Path) -> Draw:
    """Simulate one draw and return it. The runs are written to `folder`.

    The values that must match the paper are simulated until one does not match. If all match, the claims are
    simulated. Raises KeyError if the paper's simulations do not return the values that paper.yaml declares.
    """
    began_s = time.monotonic()
    posterior, mini = posterior_of(planned.paper), mini_of(planned.paper)
    draw = Draw(number=planned.number, cluster=posterior.drawn(planned.paper, planned.number, planned.seed))
    seed = chance(planned.seed, "posterior", planned.paper, planned.number).getrandbits(31)
    bench = Bench(folder, machines="sim", repeats=1, seed=seed)
    for key, value in mini.fits(bench, draw.cluster):
        draw.fits[key] = value
        if not posterior.fits[key].meets(value):
            draw.misses = key
            break
    else:
        if set(draw.fits) != set(posterior.fits):
            raise KeyError(f"{planned.paper}: fits {sorted(draw.fits)} of {sorted(posterior.fits)}")
        claims = mini.claims(bench, draw.cluster)
        draw.claims = {key: claims[key] for key in posterior.claims}
    draw.took_s = time.monotonic() - began_s
    return draw


def mini_of(paper: str) -> Mini:
    """Return the small simulations that the paper runs on each drawn cluster."""
    return importlib.import_module(f"schedbed.deploy.papers.{paper}").MINI
