"""Notes about a run's stretch and its changes, for the summary and the report.

The stretch is the number of real seconds per emulated second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedbed.deploy.results.runfile import RunFile

RUNS_TOLD, CHANGES_TOLD = 6, 8
"""The most runs, and changes of each run, in the notes below the table. `run.json` has all."""
CHANGED, UNCHANGED = "changed_stretch", "unchanged_stretch"


def changed_stretch(run: RunFile) -> dict[str, Any]:
    """Return the entry of summary.json about the setting `stretch: adaptive`, which follows the host's load.

    The result is an empty dictionary for other settings and for simulated runs.
    """
    if run.machines == "sim" or not run.scenario.get("adaptive_stretch"):
        return {}
    told = [record for record in run.runs if record.stretches]
    if not told:
        return (
            {UNCHANGED: "with limits: off nodes have no rates that could slow down"} if _is_off(run) else {}
        )
    return {
        CHANGED: {
            "largest": max(record.stretches["largest"] for record in told),
            "mean": sum(record.stretches["mean"] for record in told) / len(told),
            "runs": [
                {
                    "policy": record.policy,
                    "repeat": record.repeat,
                    "changes": [[t, stretch] for t, stretch, _ in record.stretches["changes"][1:]],
                }
                for record in told
            ],
        }
    }


def stretch_notes(summary: Mapping[str, Any]) -> list[str]:
    """Return sentences about the stretch and its changes for the notes of the table.

    The list is empty if the stretch was always 1.
    """
    stretch = summary.get("stretch", 1)
    if UNCHANGED in summary:
        return [f"An emulated second lasted {stretch:g} s of this host: {summary[UNCHANGED]}."]
    if CHANGED not in summary:
        lasted = f"An emulated second lasted {stretch:g} s of this host: all times are emulated."
        return [lasted] if stretch != 1 else []
    found = summary[CHANGED]
    changed = [run for run in found["runs"] if run["changes"]]
    if not changed:
        return [
            f"An emulated second lasted {stretch:g} s of this host: others took too little CPU to matter."
        ]
    return [
        f"An emulated second lasted {stretch:g} s of this host, and more while others took its CPU: "
        f"{found['largest']:g} s at most, {found['mean']:.3g} s on average. All times are emulated.",
        *(_changes_of(run) for run in changed[:RUNS_TOLD]),
        *([f"and {len(changed) - RUNS_TOLD} more runs."] if len(changed) > RUNS_TOLD else []),
    ]


def stretch_facts(run: RunFile) -> list[str]:
    """Return a list with one line about the stretch and its changes, for the top of the report.

    The list is empty if the stretch was always 1.
    """
    found = changed_stretch(run).get(CHANGED)
    if found is None:
        return [f"an emulated second lasted {run.stretch:g} s"] if run.stretch != 1 else []
    count = sum(len(each["changes"]) for each in found["runs"])
    if not count:
        return [f"an emulated second lasted {run.stretch:g} s"]
    return [
        f"an emulated second lasted {run.stretch:g} s, {found['largest']:g} s at most and {found['mean']:.3g} s on "
        f"average ({count} changes, as others took the host's CPU)"
    ]


def _changes_of(run: Mapping[str, Any]) -> str:
    changes = run["changes"]
    told = ", ".join(f"{stretch:g} s from {t:.1f} s on" for t, stretch in changes[:CHANGES_TOLD])
    more = f" and {len(changes) - CHANGES_TOLD} more changes" if len(changes) > CHANGES_TOLD else ""
    return f"{run['policy']}, repeat {run['repeat'] + 1}: {told}{more}."


def _is_off(run: RunFile) -> bool:
    return run.scenario.get("cluster", {}).get("limits") == "off"
