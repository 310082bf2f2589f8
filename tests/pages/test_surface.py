"""The present public surface is the recorded one."""

from __future__ import annotations

import pytest

from schedbed.scheduler.registry.registry import WITHHELD
from tests.pages.surface import UPDATE, differences, kept, surface


@pytest.mark.skipif(bool(WITHHELD), reason=f"not installed for all policies: {WITHHELD}")
def test_the_public_surface_is_the_recorded_one() -> None:
    found = differences(surface(), kept())
    assert not found, "\n".join([*found, f"meant? say so in CHANGELOG.md, then: {UPDATE}"])


def test_the_surface_has_each_kind_of_promise() -> None:
    recorded = kept()
    for line in (
        "command run: option --policy repeatable",
        "command trace convert",
        "table jobs.deadline: 08 float64",
        "trace format swim",
        "policy delay: node_wait=5s",
        "python schedbed.connect().SubmittedJob.kill(self) -> 'None'",
    ):
        assert line in recorded
    assert any(line.startswith("scenario NodeDefaults.disk: ") and "40000000.0" in line for line in recorded)
    assert any(line.startswith("python schedbed.run(scenario: ") for line in recorded)


def test_what_goes_and_what_comes_are_told_apart() -> None:
    before = ["command run", "table jobs.job: 00 str"]
    assert differences(before, before) == []
    assert differences(["command run", "table jobs.job: 00 int64"], before) == [
        "promised and gone, or changed: table jobs.job: 00 str",
        "new: table jobs.job: 00 int64",
    ]
