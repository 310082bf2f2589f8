"""The file `run.json`, in which the driver stores the settings, the environment and the state of a run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from schedbed.scheduler.core.snapshots import no_collections
from schedbed.tasks.errors import BadInput

NAME = "run.json"
SCENARIO, NEXT = "scenario", "policies"
"""The first two keys of run.json."""
BYTES_MAX = 2**30
_SEAL = b',\n"seal": "'
"""The last key is the sha256 of the text before its line, which detects a cut or edited file."""


@dataclass(slots=True, kw_only=True)
class RunRecord:
    """The record of one policy in one repeat: running, succeeded, failed (with a `note`) or interrupted."""

    policy: str
    repeat: int
    epoch_s: float  # Unix time of the run's start.
    duration_s: float = 0.0
    state: str = "running"
    note: str = ""
    host_samples: list[list[float]] = field(
        default_factory=list
    )  # [t, share of the host's CPU in use, 0 to 1]
    limits: dict[str, str] = field(default_factory=dict)  # How limits were enforced, by resource.
    counted: dict[str, str] = field(default_factory=dict)  # What counted the use, by resource.
    hosts: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # By host, in a run on several: samples as above, and lost_s if the host was lost.
    findings: dict[str, Any] = field(default_factory=dict)  # Reports of the policy, by topic.
    # For a simulation with approximate rates: the number of times that rates were computed (`times`), and the
    # number of times that distant flows kept their old rates (`cut_short`).
    rates: dict[str, int] = field(default_factory=dict)
    # Part files at the run's end, with their sha256, until they are merged; and those that were changed meanwhile.
    parts: dict[str, str] = field(default_factory=dict)
    rewritten: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecord:
    """The number of rows and the sha256 checksum of a table's file."""

    rows: int
    sha256: str


@dataclass(slots=True, kw_only=True)
class RunFile:
    """The content of `run.json`: everything about a run except the measured rows.

    `scenario` is resolved: scaled, and in seconds and bytes. `jobs` are ids. `tables` describes the merged
    tables and is empty before the merge. `left_out` are damaged part files, whose rows the tables lack.
    `replays`: costs or latencies are not the scenario's, but measured ones.
    """

    scenario: dict[str, Any]
    policies: list[str]
    repeats: int
    seed: int
    machines: str
    versions: dict[str, str] = field(default_factory=dict)
    host: dict[str, Any] = field(default_factory=dict)  # cores, memory_bytes, system
    hosts: dict[str, Any] = field(
        default_factory=dict
    )  # By host name, in a run on several: `HostRecord.facts`.
    wall_start: str = ""  # ISO 8601
    jobs: list[str] = field(default_factory=list)
    isolated_s: dict[str, float] = field(
        default_factory=dict
    )  # The simulated seconds that each planned job takes alone.
    tables: dict[str, TableRecord] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)
    replays: bool = False
    _begin: _Begin | None = field(default=None, init=False, repr=False, compare=False)

    def keep_text(self, text: str) -> None:
        """Let `save` write `text` for the scenario as it is now: its JSON in one line."""
        self._begin = _Begin.of(self.scenario, text)

    def save(self, out_dir: Path | str) -> None:
        """Write the content to `out_dir`/run.json, one key per line. The file is replaced atomically."""
        path = Path(out_dir) / NAME
        tmp = path.with_name(f".{NAME}.tmp")
        if self._begin is None or self._begin.scenario != self.scenario:
            self._begin = _Begin.of(self.scenario, json.dumps(self.scenario, default=str))
        rest = self._rest().encode()
        seal = self._begin.digest.copy()
        seal.update(rest)
        with tmp.open("wb") as out:
            out.write(self._begin.content)
            out.write(rest + _SEAL + seal.hexdigest().encode() + b'"\n}\n')
            out.flush()
            os.fsync(out.fileno())
        tmp.replace(path)

    def _rest(self) -> str:
        """Return run.json after the scenario and before the checksum."""
        plain = {name: getattr(self, name) for name in _KEYS if name != SCENARIO}
        plain["tables"] = {name: asdict(table) for name, table in self.tables.items()}
        plain["runs"] = [_without_empty(asdict(run)) for run in self.runs]
        if not self.replays:
            del plain["replays"]
        return "".join(f',\n"{key}": {json.dumps(value, default=str)}' for key, value in plain.items())

    def as_loaded(self) -> RunFile:
        """Return the record as `load` would read it after `save`, but with this scenario.

        The scenario, which is large, must be plain JSON values already.
        """
        made = _of_json({SCENARIO: self.scenario} | json.loads(f"{{{self._rest().removeprefix(',')}}}"))
        made._begin = self._begin
        return made

    @staticmethod
    def load(out_dir: Path | str) -> RunFile:
        """Read run.json. Raises BadInput if it is missing, damaged, or not written by schedbed."""
        path = Path(out_dir) / NAME
        if not path.is_file():
            raise BadInput(
                f"{path}: not found, expected the folder of a run (written by `schedbed run --out`)"
            )
        try:
            if path.stat().st_size > BYTES_MAX:
                raise ValueError(f"larger than {BYTES_MAX} bytes")
            content = path.read_bytes()
            with no_collections():
                made = _of_json(json.loads(content))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BadInput(f"{path}: not a run's description ({type(error).__name__}: {error})") from error
        text, seal, rest = content.rpartition(_SEAL)
        if not seal:
            raise BadInput(f"{path}: has no checksum, expected a run of this version of schedbed")
        if rest != hashlib.sha256(text).hexdigest().encode() + b'"\n}\n':
            raise BadInput(f"{path}: was changed after it was written, expected the content of its checksum")
        made._begin = _Begin.read(made.scenario, text)
        return made

    def run(self, policy: str, repeat: int) -> RunRecord | None:
        """Return the record of one run, or None if it was not started."""
        return next((r for r in self.runs if r.policy == policy and r.repeat == repeat), None)

    def recorded_s(self, policy: str) -> dict[str, float]:
        """Return the recorded completion times of the trace's jobs if they were recorded under this policy."""
        record = self.scenario.get("record") or {}
        named = (spec for spec in self.policies if spec.partition(":")[0] == record.get("policy"))
        return record["completion_s"] if policy == next(named, None) else {}

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes of the resolved scenario."""
        return list(self.scenario.get("cluster", {}).get("nodes", []))

    @property
    def stretch(self) -> float:
        """Return the number of real seconds that one emulated second took, which is 1 in a simulated run."""
        if self.machines == "sim":
            return 1.0
        return float(self.scenario.get("cluster", {}).get("stretch", 1.0))


@dataclass(frozen=True, slots=True)
class _Begin:
    """The first part of run.json, up to the end of the scenario, which is large and the same at each save.

    `digest` is the checksum of `content`. `scenario` is a shallow copy, since a caller may set another name
    or seed between two saves. Comparing takes no time, since equal objects are not looked into.
    """

    scenario: Mapping[str, Any]
    content: bytes
    digest: Any

    @staticmethod
    def of(scenario: Mapping[str, Any], text: str) -> _Begin:
        content = f'{{\n"{SCENARIO}": {text}'.encode()
        return _Begin(dict(scenario), content, hashlib.sha256(content))

    @staticmethod
    def read(scenario: Mapping[str, Any], content: bytes) -> _Begin | None:
        """Return the part in run.json, or None if it has other lines than `RunFile.save` writes."""
        start, end = f'{{\n"{SCENARIO}": '.encode(), f',\n"{NEXT}": '.encode()
        line = content.find(b"\n", len(start))
        if not content.startswith(start) or not content.startswith(end, line - 1):
            return None
        found = content[: line - 1]
        return _Begin(dict(scenario), found, hashlib.sha256(found))


def _without_empty(run: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in run.items() if value or key not in ("parts", "rewritten")}


_KEYS = tuple(each.name for each in fields(RunFile) if each.init)
"""The keys of run.json, in order."""


def _of_json(raw: Mapping[str, Any]) -> RunFile:
    """Convert JSON to a `RunFile`. Unknown keys are ignored, so that files of newer versions can be read."""
    known = {name: raw[name] for name in _KEYS if name in raw}
    names = {f.name for f in fields(RunRecord)}
    known["runs"] = [
        RunRecord(**{key: value for key, value in run.items() if key in names}) for run in raw["runs"]
    ]
    known["tables"] = {name: TableRecord(**table) for name, table in raw.get("tables", {}).items()}
    if not isinstance(known["scenario"], dict) or not isinstance(known["policies"], list):
        raise ValueError("scenario is not a mapping or policies is not a list")
    return RunFile(**known)
