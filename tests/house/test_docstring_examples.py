"""The examples in docstrings of the public API and the policy interface run and print what they show."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "name",
    ["schedbed", "schedbed.deploy.python_face", "schedbed.scheduler.policy", "schedbed.scheduler.view"],
)
def test_the_examples_of_a_module_run(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name))
    assert tried and not failed
