"""Every kind of fault has all parts of a kind: a scenario entry, a live and a simulated effect, a row in the
docs.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from schedbed.cluster.conditions import UNTOUCHED, Conditions
from schedbed.cluster.faults import KINDS, ONCE, STATE, FaultKind, PlannedFault
from schedbed.deploy.cli import main
from schedbed.deploy.live import fault_injector
from schedbed.deploy.live.fault_injector import FaultInjector
from schedbed.deploy.scenario.resolve import resolve
from schedbed.deploy.scenario.yaml_file import load_text
from schedbed.scheduler.simulate import virtual_faults
from schedbed.tasks.errors import BadInput
from tests.harness.simulation import job, setup, simulate
from tests.house.fault_table import on_page, rendered


def entry(example: str, **keys: Any) -> PlannedFault:
    """Return the fault that a scenario's entry `example` describes, on a cluster of four nodes."""
    given = load_text(f"{{at: 1s, {example}}}", "example").value
    cluster = {"nodes": 4}
    workload = {"jobs": [{"app": "pi"}]}
    (fault,) = resolve({"cluster": cluster, "workload": workload, "faults": [given], **keys}).faults
    return fault


@pytest.mark.parametrize("name", KINDS)
def test_the_example_of_a_kind_is_an_entry_of_a_scenario(name: str) -> None:
    kind = KINDS[name]
    fault = entry(kind.example)
    assert fault.kind == name
    for parameter in kind.parameters:
        default = getattr(PlannedFault(at_s=0.0, kind=name), parameter.field)
        assert getattr(fault, parameter.field) != default, f"the example shows no {parameter.name}"


@pytest.mark.parametrize("name", KINDS)
def test_each_spelling_of_a_kind_means_that_kind(name: str) -> None:
    kind = KINDS[name]
    for spelling in kind.spellings:
        parameters = {parameter.name: "1" for parameter in kind.parameters}
        said = {key: word or "n1" for key, word in spelling.items()} | parameters
        assert entry(", ".join(f"{key}: {word}" for key, word in said.items())).kind == name


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_a_simulated_effect_and_a_live_one(name: str) -> None:
    assert name in virtual_faults.EFFECTS
    conditions = Conditions(["n1", "n2", "n3", "n4"])
    conditions.begin(entry(KINDS[name].example))
    told = any(conditions.orders(node) != UNTOUCHED for node in ("n1", "n2", "n3", "n4"))
    # Nodes are told of a state; what happens once, or kills a process, is done by a function.
    assert told == (KINDS[name].duration == STATE)
    assert (name in fault_injector.EFFECTS) == (KINDS[name].duration != STATE)


def test_there_is_no_effect_of_a_kind_that_is_none() -> None:
    assert virtual_faults.EFFECTS.keys() | fault_injector.EFFECTS.keys() == KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
def test_a_random_plan_draws_the_kinds_that_say_how(name: str) -> None:
    """A random plan draws the parameters of a kind, and refuses a kind that cannot be drawn."""
    asked = {"random": {"count": 3, "kinds": [name], "spare": False, "until": "10h"}}
    given = {"cluster": {"nodes": 4}, "workload": {"jobs": [{"app": "pi"}]}, "faults": asked}
    kind = KINDS[name]
    if kind.draw is None:
        with pytest.raises(BadInput, match=f"'{name}' is not one of"):
            resolve(given)
        return
    for fault in resolve(given).faults:
        assert fault.kind == name
        default = PlannedFault(at_s=0.0, kind=name)
        changed = [getattr(fault, each.field) != getattr(default, each.field) for each in kind.parameters]
        assert any(changed) == bool(kind.parameters)


def test_rows_alone_make_a_kind_that_is_injected_live_and_in_virtual_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toy = FaultKind(name="toy", about="a toy", example="toy: n1", duration=ONCE)
    monkeypatch.setitem(KINDS, "toy", toy)
    monkeypatch.setitem(fault_injector.EFFECTS, "toy", lambda cluster, fault: f"{fault.nodes[0]} live")
    effect = virtual_faults.Effect(lambda faults, now_s, fault: f"{fault.nodes[0]} simulated")
    monkeypatch.setitem(virtual_faults.EFFECTS, "toy", effect)
    fault = PlannedFault(at_s=0.5, kind="toy", nodes=("n1",))
    idle: Any = SimpleNamespace(on_node=None)  # the toy touches nothing
    injector = FaultInjector([fault], ["n1"], idle)
    assert injector.advance(0.5) == [(0.5, "toy", "n1 live", None)]
    tape = simulate(setup([job("job_0001", [1.0])], 1, faults=[fault]))
    assert tape.rows["fault"] == [(0.5, "toy", "n1 simulated", None)]


def test_the_command_lists_every_kind() -> None:
    listed = CliRunner().invoke(main.app, ["fault", "--list"])
    assert listed.exit_code == 0
    assert [line.split("  ")[0] for line in listed.output.splitlines()] == [
        kind.example for kind in KINDS.values()
    ]


def test_the_table_in_the_docs_is_that_of_the_rows() -> None:
    assert on_page() == rendered(), "docs/faults.md is not up to date: python -m tests.house.fault_table"
