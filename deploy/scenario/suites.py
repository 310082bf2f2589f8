"""`workload: {suite: NAME}`: sets of jobs that are shipped with schedbed, as files in `deploy/suites`."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Annotated

from pydantic import Field

from schedbed.deploy.scenario.models import JobModel, Section
from schedbed.deploy.scenario.yaml_file import load_text

FOLDER = "suites"


class Suite(Section):
    """The content of a file in `deploy/suites`: a shipped set of jobs.

    Times and amounts of data are not yet multiplied by the scenario's factor `scale`.
    """

    about: str
    paper: str = ""
    jobs: Annotated[list[JobModel], Field(min_length=1)]


@cache
def suites() -> dict[str, Suite]:
    """Return all shipped suites as a dictionary from name to suite."""
    files = resources.files("schedbed.deploy").joinpath(FOLDER).iterdir()
    names = sorted(file.name.removesuffix(".yaml") for file in files)
    return {name: Suite.model_validate(load_text(suite_text(name), name).value) for name in names}


def suite_text(name: str) -> str:
    """Return a suite's YAML; its `jobs` can be copied into a scenario."""
    return resources.files("schedbed.deploy").joinpath(FOLDER, f"{name}.yaml").read_text(encoding="utf-8")
