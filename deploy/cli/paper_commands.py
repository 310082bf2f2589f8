"""The command `schedbed reproduce`: selects experiments of papers and runs them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from schedbed.deploy.papers import paper_file, terminal
from schedbed.deploy.papers.catalogue import PAPERS, chosen, entries
from schedbed.tasks.errors import BadInput


@dataclass(frozen=True, slots=True)
class ReproduceOptions:
    """The options of the command `schedbed reproduce`. `machines` must be the name of a kind of machine."""

    machines: str
    all: bool
    quick: bool
    full: bool
    posterior: bool
    draws: int | None
    repeats: int | None
    seed: int
    jobs: int
    out: Path | None


def reproduce(target: str | None, options: ReproduceOptions) -> None:
    """Run the experiments that `target` and the options select, or print a list if they select none.

    `target` is a paper such as `verma2011`, or an experiment such as `verma2011/fig5`. With
    `options.posterior`, the paper's claims are judged on randomly drawn clusters that fit its results.
    Raises BadInput for options that exclude each other.
    """
    if options.posterior:
        _posterior(target, options)
        return
    if options.draws is not None:
        raise BadInput("reproduce --draws: expected --posterior PAPER beside it")
    known = entries()
    if target is None and not options.all and not options.quick:
        terminal.list_all(known)
        return
    if target is not None and options.all:
        raise BadInput(f"reproduce {target} --all: expected one of the two")
    mine = chosen(known, target, options.machines, quick=options.quick)
    from schedbed.deploy.papers.reproduce import reproduce as run_all

    run_all(
        mine,
        machines=options.machines,
        repeats=options.repeats,
        seed=options.seed,
        jobs=options.jobs,
        out=options.out,
        say=typer.echo,
        full=options.full,
    )


def _posterior(target: str | None, options: ReproduceOptions) -> None:
    if options.all or options.quick or options.full or options.repeats is not None:
        raise BadInput("reproduce --posterior: expected PAPER, --draws, --seed and --out only")
    if target not in PAPERS:
        names = ", ".join(paper for paper in PAPERS if paper_file.load(paper).posterior is not None)
        raise BadInput(f"reproduce --posterior: expected one of {names}, got {target or 'no paper'}")
    from schedbed.deploy.papers.posterior.posterior_run import posterior

    posterior(
        target, draws=options.draws, seed=options.seed, jobs=options.jobs, out=options.out, say=typer.echo
    )
