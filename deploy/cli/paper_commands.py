"""The command `schedbed reproduce`: selects experiments of papers and runs them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from schedbed.deploy.papers import terminal
from schedbed.deploy.papers.catalogue import chosen, entries
from schedbed.tasks.errors import BadInput


@dataclass(frozen=True, slots=True)
class ReproduceOptions:
    """The options of the command `schedbed reproduce`. `machines` must be the name of a kind of machine."""

    machines: str
    all: bool
    quick: bool
    full: bool
    repeats: int | None
    seed: int
    jobs: int
    out: Path | None


def reproduce(target: str | None, options: ReproduceOptions) -> None:
    """Run the experiments of `verma2011` or `verma2011/fig5`, or list all. Raises BadInput."""
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
        quick=options.quick,
    )
