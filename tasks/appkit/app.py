"""The interface of an application: its name and parameters, and its map and reduce functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schedbed.tasks.appkit.cost_law import AppCosts, Work
from schedbed.tasks.appkit.part_files import Parts, Pieces, Ran
from schedbed.tasks.errors import BadInput
from schedbed.tasks.mapper import MapTask
from schedbed.tasks.reducer import ReduceTask

ReadRange = Callable[[int, int], bytes]
"""Function that returns the bytes of a job's input at (offset, length)."""

Check = Callable[[Ran, Pieces, Parts], str | None]
"""Function that returns the error in a job's output, in one line; None if the output is correct.

Arguments: the job's properties, the pieces of the input (none without an input), and the pieces of each part of the
output. A check computes the output in a different way from the application. It may raise ValueError for malformed
output.
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an application.

    `unit` is "bytes" for sizes, "s" for durations, otherwise another word or "". `required` parameters have
    no default. `derived` parameters are not set by users: the application's function `derive` computes them
    at submission. `scaled` parameters are amounts of data to write, which the scenario's `scale` multiplies.
    A number must be between `least` and `most`.
    """

    name: str
    default: Any
    unit: str
    doc: str
    required: bool = False
    derived: bool = False
    scaled: bool = False
    least: float = 0
    most: float = math.inf


RUNTIME_PARAMETERS = (
    Parameter(
        "sort_buffer",
        64 * 2**20,
        "bytes",
        "memory in which a map sorts its output before it writes the output to disk",
    ),
    Parameter(
        "shuffle_buffer",
        512 * 2**20,
        "bytes",
        "memory in which a reduce keeps map outputs that it has fetched",
    ),
    Parameter("parallel_copies", 4, "", "number of map outputs that a reduce fetches at the same time"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An application: its map and reduce functions, its parameters, and its costs for the simulator.

    `input` is a kind of input that can be generated, "raw" or "none". `reduces` is "needed", "never" or
    "any". `default_maps` is the number of maps of a job without input. `paper` names the papers that use the
    application. `derive(read, input bytes, reduces, seed)` computes the `derived` parameters at submission.
    `check` finds errors in an output. If `costs` is None, the simulator measures the application on its host.
    `work` is the parameter that sets the amount of work of a map without input. `generate(size, seed)`
    generates a kind of input that no other application has.
    """

    name: str
    summary: str
    input: str
    reduces: str
    run_map: Callable[[MapTask], None]
    run_reduce: Callable[[ReduceTask], None] | None = None
    parameters: tuple[Parameter, ...] = ()
    default_maps: int = 1
    paper: str = ""
    derive: Callable[[ReadRange, int, int, int], Mapping[str, Any]] | None = None
    check: Check | None = None
    costs: AppCosts | None = None
    work: Work | None = None
    generate: Callable[[int, int], Iterator[bytes]] | None = None

    def params(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a job's parameters with defaults. Raises BadInput for an unknown or missing one."""
        known = {parameter.name: parameter for parameter in (*self.parameters, *RUNTIME_PARAMETERS)}
        for name in given:
            if name not in known:
                users = sorted(name for name, parameter in known.items() if not parameter.derived)
                raise BadInput(f"{self.name} has no parameter {name!r}, expected one of {', '.join(users)}")
        for name, parameter in known.items():
            if parameter.required and not parameter.derived and name not in given:
                raise BadInput(f"{self.name} needs the parameter {name!r}: {parameter.doc}")
        return {name: parameter.default for name, parameter in known.items()} | dict(given)

    def work_of(self, params: Mapping[str, Any], input_bytes: int, maps: int) -> int:
        """Return one map's work: its bytes or, without input, the value of the parameter `work`."""
        if self.work is None:
            return input_bytes
        return int(self.params(params)[self.work.parameter]) // (maps if self.work.shared else 1)


@dataclass(frozen=True, slots=True)
class AppsOfUsers:
    """Applications that users write, declared as `APPS_OF_USERS` in a file of tasks/own.

    `app_of` receives a job's `app`, its parameters and the shipped applications. It returns the application of
    the class in the parameters, else the shipped one with what the parameters determine. Raises KeyError.
    """

    app_of: Callable[[str, Mapping[str, Any], Mapping[str, App]], App]
