"""Tests that the commands which list policies and other names print all of them, one list or all lists at
once.
"""

from __future__ import annotations

import pytest

from schedbed.deploy.cli.lists import show_policies
from schedbed.scheduler.registry.registry import AXES, POLICIES
from schedbed.tasks.errors import BadInput


@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_shows_its_parameters(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The description of a policy contains its parameters."""
    show_policies(name)
    shown = capsys.readouterr().out
    assert name in shown
    for parameter in POLICIES[name].parameters:
        assert parameter.name in shown


def test_all_policies_and_axes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """The list contains all policies and the axes of composed policies."""
    show_policies(None)
    shown = capsys.readouterr().out
    assert all(name in shown for name in POLICIES)
    assert all(f"{axis}={name}" in shown for axis, names in AXES.items() for name in names)


def test_an_unknown_policy_is_bad_input() -> None:
    """A misspelled policy name raises BadInput."""
    with pytest.raises(BadInput, match="unknown policy 'ariaa'"):
        show_policies("ariaa")
