"""The workloads of the arena: the shipped suites, generated jobs, and files of users."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from schedbed.deploy.scenario.suites import suites
from schedbed.deploy.scenario.yaml_file import load_file
from schedbed.tasks.errors import BadInput

LOADS = (0.5, 0.8, 0.95)
SUITES_QUICK = ("mixed", "xu2015")
DRAWN_QUICK = (
    "load0.5-even-calm",
    "load0.8-even-deadlines-calm",
    "load0.8-skewed-calm",
    "load0.8-skewed-deadlines-faults",
    "load0.95-even-calm",
    "load0.95-skewed-deadlines-faults",
)
JOBS, JOBS_QUICK = 60, 20
NODE = {
    "cores": 2,
    "core_speed": 1,
    "memory": "1GiB",
    "disk": "40MB/s",
    "network": "100Mbit/s",
    "map_slots": 2,
    "reduce_slots": 1,
}
CLUSTER = {"nodes": 8, "racks": 2, "node": NODE, "heartbeat": "500ms"}
SCENARIO_ENDS = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Course:
    """A workload: a scenario without policies, with relative paths from `base`.

    `kind` is `suite` (shipped), `drawn` (generated jobs) or `named` (a user's file); the arena selects the
    best policies of each.
    """

    name: str
    kind: str
    document: dict[str, Any]
    base: str = "."

    def seeded(self, seed: int) -> dict[str, Any]:
        """Return the scenario with a seed for generated jobs, placement and faults."""
        return copy.deepcopy(self.document) | {"seed": seed}


def choose(names: Sequence[str], files: Sequence[Path], *, quick: bool) -> list[Course]:
    """Return named workloads, and one for each file; by default all, or a few if `quick`. Raises BadInput.

    The name `suites` selects all shipped suites, `drawn` all generated jobs.
    """
    known = _shipped(JOBS_QUICK if quick else JOBS)
    chosen: list[Course] = []
    for name in names or (() if files else _default(known, quick)):
        mine = [course for course in known.values() if name in (course.name, _PLURAL[course.kind])]
        if not mine:
            raise BadInput(
                f"--workloads {name}: no such workload, expected suites, drawn, or some of {', '.join(known)}"
            )
        chosen += mine
    chosen += [_named(file) for file in files]
    return list({course.name: course for course in chosen}.values())


_PLURAL = {"suite": "suites", "drawn": "drawn", "named": "named"}


def _default(known: dict[str, Course], quick: bool) -> list[str]:
    return [name for name in known if name in SUITES_QUICK + DRAWN_QUICK] if quick else list(known)


def _shipped(jobs: int) -> dict[str, Course]:
    found = [
        Course(name, "suite", _scenario(name, {"suite": name}, scale=0.25 if name == "mixed" else 1.0))
        for name in suites()
    ]
    for load, skewed, deadlines, faults in product(LOADS, (False, True), (False, True), (False, True)):
        found.append(_drawn(jobs, load, skewed=skewed, deadlines=deadlines, faults=faults))
    return {course.name: course for course in found}


def _drawn(jobs: int, load: float, *, skewed: bool, deadlines: bool, faults: bool) -> Course:
    words = (
        f"load{load:g}",
        "skewed" if skewed else "even",
        *(("deadlines",) if deadlines else ()),
        "faults" if faults else "calm",
    )
    generate: dict[str, Any] = {
        "jobs": jobs,
        "load": load,
        "input": {"least": "64MiB", "most": "2GiB", "shape": 1},
        "users": 4,
    }
    if deadlines:
        generate["deadline"] = {"least": 1, "most": 4}
    name = "-".join(words)
    document = _scenario(name, {"generate": generate})
    document["blocks"]["placement"] = {"skewed": 0.5} if skewed else "even"
    if faults:
        document["faults"] = [{"random": {"rate": "20/h", "kinds": ["kill", "slow"], "for": "60s"}}]
    return Course(name, "drawn", document)


def _scenario(name: str, workload: dict[str, Any], scale: float = 1.0) -> dict[str, Any]:
    return {
        "name": name,
        "scale": scale,
        "cluster": copy.deepcopy(CLUSTER),
        "blocks": {"size": "64MiB", "replication": 2, "placement": "hdfs"},
        "workload": workload,
        "profiles": {"store": "none"},
    }


def _named(file: Path) -> Course:
    """Return the workload of a scenario, or of a trace on the arena's cluster. Raises BadInput."""
    if not file.is_file():
        raise BadInput(f"--workload {file}: no such file, expected a scenario (.yaml) or a trace")
    if file.suffix not in SCENARIO_ENDS or file.name.endswith(".trace.json"):
        return Course(file.name, "named", _scenario(file.name, {"trace": str(file.resolve())}))
    document = dict(load_file(file).value)
    document.pop("policies", None)
    return Course(file.stem, "named", document | {"repeats": 1}, str(file.resolve().parent))
