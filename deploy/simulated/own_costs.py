"""Costs of a user's own application, measured once on a sample of its input and kept in the profile store.

The code runs in a child process with a time limit (`python -m schedbed.deploy.simulated.own_costs FD`, with
FD for the answer). The key is a digest of everything on which costs depend, so that later simulations have
the same costs.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import time
from dataclasses import asdict, replace
from pathlib import Path

from schedbed.deploy.scenario.resolved import ResolvedScenario
from schedbed.deploy.simulated.measure_apps import measure_on, sample_of
from schedbed.scheduler.profiles import ProfileStore, named_store
from schedbed.tasks.appkit.cost_law import AppCosts
from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.child import Answer, answer_with, ask, how_code_runs
from schedbed.tasks.own.program import files_of
from schedbed.tasks.own.watch import TIMEOUT
from schedbed.tasks.specs import Demand
from schedbed.tasks.units import format_bytes, format_duration
from schedbed.tasks.workloads.planned import PlannedJob

KIND = "app-costs"
"""The kind under which the profile store keeps the costs."""
SAMPLE_BYTES = 2 * 2**20  # the most that is sampled of a job's input
LIMIT_S = 180.0
_known: dict[str, AppCosts] = {}  # costs by digest, shared by equal jobs


def law_of_own(scenario: ResolvedScenario, job: PlannedJob) -> AppCosts:
    """Return the cost law (CPU time and output by work), measured unless the profile store has it.

    Raises BadInput if the application fails on the sample or takes too long.
    """
    file = scenario.input(job.input) if job.input else None
    sample = b"" if file is None else sample_of(file, SAMPLE_BYTES)
    name = _digest(scenario, job, sample)
    if name not in _known:
        _known[name] = _stored(scenario, name) or _measured(scenario, job, sample, name)
    return _known[name]


def _digest(scenario: ResolvedScenario, job: PlannedJob, sample: bytes) -> str:
    params = {key: value for key, value in job.params.items() if key != TIMEOUT}
    work = None if job.input else (job.maps, scenario.seed)
    said = json.dumps([job.app, params, bool(job.reduces), job.reduces, work], sort_keys=True)
    return f"{job.app} {hashlib.sha256(said.encode() + sample).hexdigest()[:16]}"


def _stored(scenario: ResolvedScenario, name: str) -> AppCosts | None:
    if scenario.profiles.store == "none":
        return None
    values = ProfileStore(named_store(scenario.profiles.store)).load(KIND, name)
    return None if values is None else AppCosts.from_json(values)


def _measured(scenario: ResolvedScenario, job: PlannedJob, sample: bytes, name: str) -> AppCosts:
    programs = {file.path: _bytes_of(scenario, file.path) for file in files_of(job.params) if file.length}
    request = {
        "job": asdict(replace(job, input=None, map_costs=(), reduce_costs=())),
        "sample": _text(sample),
        "seed": scenario.seed,
        "programs": {path: _text(data) for path, data in programs.items()},
    }
    began_s = time.monotonic()
    instead = "costs: {...} declares them instead"
    how = how_code_runs(f"{job.job} {job.app}: the measurement of its costs", instead)
    print(f"{job.app}: runs {how}, to measure its costs; {instead}")
    try:
        values = ask("schedbed.deploy.simulated.own_costs", request, LIMIT_S)
    except BadInput as error:
        why = str(error)
        if not why.startswith(job.job):
            why = f"{job.job} {job.app}: a sample of its input takes too long or ends it: {why}"
        raise BadInput(f"{why}; costs: {{...}} in the scenario declares its costs") from None
    took, size = format_duration(round(time.monotonic() - began_s, 1)), format_bytes(len(sample))
    store = scenario.profiles.store
    kept = "not kept (profiles.store: none)" if store == "none" else f"kept in {named_store(store)}"
    print(f"{job.app}: costs measured on {size} of its input in {took}, {kept}")
    if store != "none":
        # Without a folder to write in, costs are measured again the next time.
        with contextlib.suppress(OSError):
            ProfileStore(named_store(store)).save(KIND, name, values)
    return AppCosts.from_json(values)


def _bytes_of(scenario: ResolvedScenario, path: str) -> bytes:
    real = scenario.input(path).real_path
    assert real is not None
    try:
        return Path(real).read_bytes()
    except OSError as error:
        raise BadInput(f"{real}: cannot be read: {error.strerror}") from None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _measure(request: Answer) -> Answer:
    raw = request["job"]
    demands = {key: Demand(**raw[key]) for key in ("map_demand", "reduce_demand")}
    job = PlannedJob(**{**raw, **demands})
    programs = {path: base64.b64decode(text) for path, text in request["programs"].items()}
    return asdict(measure_on(job, base64.b64decode(request["sample"]), request["seed"], programs))


if __name__ == "__main__":
    answer_with(_measure)
