"""The names of the costs that users can declare for their applications. The simulator uses these costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedbed.tasks.appkit.cost_law import AppCosts, Law

MB = 1e6
COSTS = "costs"
"""The job parameter with the declared costs of its application."""
NAMES: Mapping[str, str] = {
    "map_start_s": "CPU seconds of a host's core that each map needs, whatever it reads",
    "map_s_per_mb": "CPU seconds of a host's core that a map needs for each MB (1,000,000 bytes) that it reads",
    "map_output": "bytes that a map gives to the reduces, after combining, for each byte that it reads",
    "reduce_start_s": "CPU seconds of a host's core that each reduce needs, whatever it fetches",
    "reduce_s_per_mb": "CPU seconds of a host's core that a reduce needs for each MB that it fetches",
    "output": "bytes of output for each byte that the maps give to the reduces; without reduces, that they read",
}


def checked_costs(given: Mapping[str, Any]) -> dict[str, float]:
    """Return the declared costs as a dictionary from name to float.

    Raises ValueError for an unknown name or a value that is not a number >= 0.
    """
    for name, value in given.items():
        if name not in NAMES:
            raise ValueError(f"costs: {name!r} is unknown, expected one of {', '.join(NAMES)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise ValueError(f"costs: {name}: {value!r} is not a number of 0 or more")
    return {name: float(value) for name, value in given.items()}


def declared_law(costs: Mapping[str, float], *, reduces: bool) -> AppCosts:
    """Return the cost model of an application with the declared costs. `reduces` is True if it has reduces.

    A cost that is not declared is 0. If no output costs are declared, each output has the size of the input.
    """
    ratio = costs.get("map_output", 1.0)
    output = costs.get("output", 1.0) * (ratio if reduces else 1.0)
    return AppCosts(
        map_start_s=costs.get("map_start_s", 0.0),
        map_cpu_s=costs.get("map_s_per_mb", 0.0) / MB,
        map_sort_s=0.0,
        map_output=Law(ratio if reduces else output),
        map_records=0.0,
        reduce_start_s=costs.get("reduce_start_s", 0.0),
        reduce_sort_s=0.0,
        reduce_cpu_s=costs.get("reduce_s_per_mb", 0.0) / MB,
        output=Law(output),
        note="declared",
    )
