from __future__ import annotations

from typing import Any

from schedbed.deploy.results.fidelity import doubt_stretch
from schedbed.deploy.results.measures.changed_stretch import changed_stretch, stretch_facts, stretch_notes
from schedbed.deploy.results.runfile import RunFile, RunRecord

CHANGES = [[0.0, 1.2, 0.0], [12.3, 1.8, 1.01], [40.0, 1.2, 0.02]]
TOLD = {"changes": CHANGES, "largest": 1.8, "mean": 1.4, "short_share": 0.0}
CALM = {"changes": CHANGES[:1], "largest": 1.2, "mean": 1.2, "short_share": 0.0}


def run(*stretches: dict[str, Any], machines: str = "process", adaptive: bool = True) -> RunFile:
    records = [
        RunRecord(policy="fifo", repeat=repeat, epoch_s=0.0, stretches=told)
        for repeat, told in enumerate(stretches)
    ]
    scenario = {"adaptive_stretch": adaptive, "cluster": {"stretch": 1.2, "limits": "auto"}}
    return RunFile(scenario=scenario, policies=["fifo"], repeats=1, seed=1, machines=machines, runs=records)


def test_a_run_says_what_was_done() -> None:
    made = run(TOLD, CALM)
    notes = stretch_notes({"stretch": 1.2} | changed_stretch(made))
    assert notes == [
        "An emulated second lasted 1.2 s of this host, and more while others took its CPU: 1.8 s at most, 1.3 s on "
        "average. All times are emulated.",
        "fifo, repeat 1: 1.8 s from 12.3 s on, 1.2 s from 40.0 s on.",
    ]
    assert stretch_facts(made) == [
        "an emulated second lasted 1.2 s, 1.8 s at most and 1.3 s on average (2 changes, as others took the host's CPU)"
    ]


def test_a_run_that_nobody_disturbed_says_so() -> None:
    made = run(CALM)
    assert stretch_notes({"stretch": 1.2} | changed_stretch(made)) == [
        "An emulated second lasted 1.2 s of this host: others took too little CPU to matter."
    ]
    assert stretch_facts(made) == ["an emulated second lasted 1.2 s"]


def test_a_fixed_stretch_and_a_simulation_say_what_they_did_before() -> None:
    assert changed_stretch(run({}, adaptive=False)) == {}
    assert changed_stretch(run(TOLD, machines="sim")) == {}
    assert stretch_notes({}) == []
    assert stretch_notes({"stretch": 4.0}) == [
        "An emulated second lasted 4 s of this host: all times are emulated."
    ]
    assert stretch_facts(run({}, adaptive=False)) == ["an emulated second lasted 1.2 s"]


def test_without_limits_the_stretch_stays_and_the_run_says_why() -> None:
    made = run({})
    made.scenario["cluster"] = {"stretch": 1.0, "limits": "off"}
    [note] = stretch_notes(changed_stretch(made))
    assert note.startswith("An emulated second lasted 1 s") and "limits: off" in note


def test_more_changes_than_can_be_read_are_counted() -> None:
    many = [[float(t), 1.2 if t % 2 else 2.4, 0.0] for t in range(31)]
    told = TOLD | {"changes": many, "largest": 2.4}
    notes = stretch_notes({"stretch": 1.2} | changed_stretch(run(*[told] * 9)))
    assert notes[1].endswith("and 22 more changes.") and notes[-1] == "and 3 more runs."


def test_what_no_stretch_makes_up_for_is_not_trusted() -> None:
    judged = {"trusted": True, "why": []}
    assert doubt_stretch(judged, TOLD) is judged and doubt_stretch(judged, {}) is judged
    doubted = doubt_stretch(judged, TOLD | {"short_share": 0.3, "largest": 9.6})
    assert not doubted["trusted"] and "30%" in doubted["why"][0] and "9.6" in doubted["why"][0]
