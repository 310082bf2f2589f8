"""`schedbed validate TRACE... --recorded --fit`: a framework's delays, fitted to recordings of a real system.

Every second recording fits three delays, and the others judge them, so that the error that is told is not that of
the recordings from which the delays come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from statistics import mean

from schedbed.scheduler.framework import Framework

DELAYS = ("init_s", "localize_s", "cleanup_s")
"""The delays that are fitted: before a job's first task, before a node's first task of a job, after the last task."""
STEPS_S = (1.0, 0.5, 0.2, 0.1)
MOST_S = 60.0
ErrorOf = Callable[[int, Framework], float]
"""The mean absolute error per job of a recording, by its index, under a framework."""


def halves(count: int) -> tuple[list[int], list[int]]:
    """Return the indices of the recordings that fit the delays, and of those that judge them."""
    return list(range(0, count, 2)), list(range(1, count, 2))


def fitted(profile: Framework, fitting: Sequence[int], error_of: ErrorOf) -> Framework:
    """Return the profile with the delays that have the least mean error of the recordings `fitting`.

    One delay after another goes up or down in steps of 1 s to 0.1 s, as long as that helps.
    """
    best, best_error = profile, _mean_error(profile, fitting, error_of)
    for step_s in STEPS_S:
        improved = True
        while improved:
            improved = False
            for key in DELAYS:
                for sign in (1, -1):
                    delay_s = round(asdict(best)[key] + sign * step_s, 3)
                    if not 0 <= delay_s <= MOST_S:
                        continue
                    changed = replace(best, **{key: delay_s})
                    error = _mean_error(changed, fitting, error_of)
                    if error < best_error - 1e-6:
                        best, best_error, improved = changed, error, True
    return best


def _mean_error(framework: Framework, recordings: Sequence[int], error_of: ErrorOf) -> float:
    return mean(error_of(number, framework) for number in recordings)


def delays_of(framework: Framework) -> str:
    """Return the fitted delays as text, by their keys in a scenario."""
    values = asdict(framework)
    return ", ".join(f"{key.removesuffix('_s')} {values[key]:g} s" for key in DELAYS)
