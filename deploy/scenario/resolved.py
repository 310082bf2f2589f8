"""The resolved form of a scenario, as stored in run.json: with parsed units, scaled times, planned jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any, TypeVar

from schedbed.cluster.faults import PlannedFault
from schedbed.cluster.spec import BlockSettings, ClusterSpec, NodeSpec
from schedbed.scheduler.driver import PolicyChange
from schedbed.scheduler.framework import NONE, Framework
from schedbed.scheduler.policy import Policy
from schedbed.scheduler.registry.policy_spec import is_policy_file
from schedbed.scheduler.registry.registry import build_policy
from schedbed.scheduler.registry.speculation import with_speculation
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Cost, Demand, Priority
from schedbed.tasks.workloads.planned import InputFile, PlannedJob

FORMAT = "schedbed-resolved-1"
SUFFERING = ("seek", "paging", "shared_disk", "foreground", "idle_watts", "busy_watts")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """A policy to run. `spec`, a one-line text such as `delay:node_wait=5s`, names it in every output.

    `given` is the argument from which `build_policy` creates the policy. `make` is a function that creates a
    policy passed by a program as a class or an object; run.json cannot store this function.
    """

    spec: str
    given: Any  # a name, a SPEC string or a one-key mapping
    make: Callable[[], Policy] | None = field(default=None, compare=False, repr=False)

    @property
    def is_own(self) -> bool:
        """Return whether the policy is a user's code, from a file or a program."""
        return self.make is not None or is_policy_file(self.spec)

    def build(self, *, scale: float, store: str) -> Policy:
        """Return a new policy with scaled times, unless it is a program's class or object.

        `store` is the file of job measurements that it reads by default.
        """
        return build_policy(self.given, scale=scale, store=store) if self.make is None else self.make()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilesChoice:
    """The choice of the profile store, a file of job measurements that policies read.

    `store` is `store` (the user's default store), `none` (no store) or a path. With `learn`, runs also add
    their measurements to this store.
    """

    store: str = "store"
    learn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateChoice:
    """The settings of the simulator, such as the source of task costs.

    `costs` is `specification` (declared by synthetic jobs and shipped applications), `profile` (applications
    are measured on this host first) or `trace` (task durations in the trace). With `contention`, the tasks of
    a node share its CPU, disk and network. `seek` is the seek cost of disks that declare none; a disk with a
    seek cost is slower with several streams. With the `engine` `auto`, large runs are simulated by compiled
    code if possible; with `objects`, always by Python objects.
    """

    costs: str = "specification"
    contention: bool = True
    seek: float = 0.0
    straggler_share: float = 0.0  # share of all attempts
    straggler_factor: float = 5.0  # factor on their CPU time
    engine: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedScenario:
    """All data that a run needs, computed from a scenario file.

    `given` (the file's values) and `base` (the folder of relative paths) are kept so that the scenario can be
    resolved again with other overrides. All times are scaled, except those of policies, which
    `PolicyChoice.build` scales.
    """

    name: str
    seed: int
    scale: float
    repeats: int
    cluster: ClusterSpec
    jobs: tuple[PlannedJob, ...]  # in order of submission
    inputs: tuple[InputFile, ...]
    policies: tuple[PolicyChoice, ...]
    faults: tuple[PlannedFault, ...] = ()
    changes: tuple[PolicyChange, ...] = ()
    speculation: Any = "none"  # as given: none, late or {late: {key: value}}
    sizes: Any = "true"  # as given: true, hidden, estimated or {estimated: {error: value}}
    dynamic_blocks: str = "none"
    profiles: ProfilesChoice = ProfilesChoice()
    simulate: SimulateChoice = SimulateChoice()
    framework: Framework = NONE
    measure: Mapping[str, float | None] | None = None  # from_s and until_s of the jobs that count
    record: Mapping[str, Any] | None = None  # of a recorded trace: its policy, and completion_s by job
    auto_stretch: bool = False  # `cluster.stretch` is computed for this host
    warnings: tuple[str, ...] = ()  # missing data of a trace, and assumptions
    given: Mapping[str, Any] = field(default_factory=dict)  # the scenario file's values, overrides applied
    base: str = "."  # the folder of relative paths in `given`

    def input(self, path: str) -> InputFile:
        """Return the input file at a block-store path. Raises KeyError if there is none."""
        for file in self.inputs:
            if file.path == path:
                return file
        raise KeyError(path)

    @property
    def task_count(self) -> int:
        return sum(job.maps + job.reduces for job in self.jobs)

    def new_policy(self, choice: PolicyChoice) -> Policy:
        """Return a new object of this policy, with the scenario's speculation."""
        plain = choice.build(scale=self.scale, store=self.profiles.store)
        return with_speculation(plain, self.speculation, self.scale)

    def without_learning(self) -> ResolvedScenario:
        """Return a copy whose run adds nothing to the profile store."""
        return replace(self, profiles=replace(self.profiles, learn=False))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON for run.json, in which n equal consecutive task costs become [n, value]."""
        rest = asdict(replace(self, jobs=(), inputs=(), given={}, policies=()))
        # run.json has these keys only if the cluster limits the links, or a node sets a value.
        for link in ("downlink_bps", "core_switch_bps"):
            if rest["cluster"][link] is None:
                del rest["cluster"][link]
        for node in rest["cluster"]["nodes"]:
            for key in [key for key in SUFFERING if not node[key]]:
                del node[key]
        if self.record is None:
            del rest["record"]
        rest["changes"] = [asdict(each) for each in self.changes]
        if not self.changes:
            del rest["changes"]
        rest["policies"] = [{"spec": choice.spec, "given": choice.given} for choice in self.policies]
        jobs, inputs = [job_json(job) for job in self.jobs], [input_json(file) for file in self.inputs]
        return {"format": FORMAT, **rest, "jobs": jobs, "inputs": inputs, "given": self.given}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> ResolvedScenario:
        """Undo `to_json`. Raises BadInput for another form."""
        try:
            return _from_json(raw)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"not a resolved scenario: {type(error).__name__}: {error}") from None


JOB_FIELDS = tuple(each.name for each in fields(PlannedJob))
INPUT_FIELDS = tuple(each.name for each in fields(InputFile))


def packed(values: Sequence[Any], plain: Callable[[Any], Any]) -> list[Any]:
    """Return JSON values in which n equal consecutive ones become [n, value]."""
    groups = ((len(list(group)), plain(value)) for value, group in groupby(values))
    return [[count, value] if count > 1 else value for count, value in groups]


def _unpacked(raw: Sequence[Any], made: Callable[[Any], T]) -> Iterator[T]:
    for entry in raw:
        count, value = entry if isinstance(entry, list) else (1, entry)
        yield from repeat(made(value), count)


def job_json(job: PlannedJob) -> dict[str, Any]:
    """Return a planned job as plain JSON values."""
    made = dict(zip(JOB_FIELDS, attrgetter(*JOB_FIELDS)(job), strict=True))
    made |= {key: _demand_json(made[key]) for key in ("map_demand", "reduce_demand")}
    made["params"] = dict(job.params)
    return made | {key: packed(made[key], _cost_json) for key in ("map_costs", "reduce_costs")}


def _to_dict_of(kind: type) -> Callable[[Any], dict[str, Any]]:
    """Return a function that converts a plain dataclass, faster than `asdict`."""
    names = tuple(each.name for each in fields(kind))
    values = attrgetter(*names)
    return lambda item: dict(zip(names, values(item), strict=True))


_cost_json, _demand_json = _to_dict_of(Cost), _to_dict_of(Demand)


def input_json(file: InputFile) -> dict[str, Any]:
    made = dict(zip(INPUT_FIELDS, attrgetter(*INPUT_FIELDS)(file), strict=True))
    return made | {"blocks": packed(file.blocks, int)}


def _from_json(raw: Mapping[str, Any]) -> ResolvedScenario:
    known = {key: value for key, value in raw.items() if key != "format"}
    known["cluster"] = _cluster(raw["cluster"])
    known["jobs"] = tuple(_job(job) for job in raw["jobs"])
    known["inputs"] = tuple(_input(file) for file in raw["inputs"])
    known["policies"] = tuple(PolicyChoice(**choice) for choice in raw["policies"])
    known["faults"] = tuple(
        PlannedFault(**{**fault, "nodes": tuple(fault["nodes"])}) for fault in raw["faults"]
    )
    known["changes"] = tuple(PolicyChange(**change) for change in raw.get("changes", ()))
    known["profiles"] = ProfilesChoice(**raw.get("profiles", {}))
    known["simulate"] = SimulateChoice(**raw.get("simulate", {}))
    known["framework"] = Framework(**raw.get("framework", {}))
    known["warnings"] = tuple(raw["warnings"])
    return ResolvedScenario(**known)


def _cluster(raw: Mapping[str, Any]) -> ClusterSpec:
    nodes = tuple(NodeSpec(**node) for node in raw["nodes"])
    return ClusterSpec(**{**raw, "nodes": nodes, "blocks": BlockSettings(**raw["blocks"])})


def _input(raw: Mapping[str, Any]) -> InputFile:
    preferred = raw["preferred"]
    hosts = None if preferred is None else tuple(tuple(nodes) for nodes in preferred)
    return InputFile(**{**raw, "blocks": tuple(_unpacked(raw["blocks"], int)), "preferred": hosts})


def _job(raw: Mapping[str, Any]) -> PlannedJob:
    known = dict(raw)
    known["priority"] = Priority(raw["priority"])
    for key in ("map_demand", "reduce_demand"):
        known[key] = Demand(**raw[key])
    known["unplaced"] = tuple(raw.get("unplaced", ()))
    for key in ("map_costs", "reduce_costs"):
        known[key] = tuple(_unpacked(raw[key], lambda cost: Cost(**cost)))
    if "requested_s" in raw["params"]:  # where earlier results have it
        known["params"] = {key: value for key, value in raw["params"].items() if key != "requested_s"}
        known["requested_s"] = raw["params"]["requested_s"]
    return PlannedJob(**known)
