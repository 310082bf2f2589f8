"""Tests the comparison of policies: the best one, the starred differences, and the use of more repeats."""

from __future__ import annotations

from typing import Any

import pytest

from schedbed.deploy.results import stats
from schedbed.deploy.results.comparison import FIGURES, best, compare, differs_from_first, verdicts

MAKESPAN = FIGURES[0]
NOISE = (0.0, 0.4, -0.3, 0.1, -0.2, 0.25, -0.15, 0.05, 0.3, -0.35)


def summary_of(repeats_of: dict[str, dict[int, float]], *, untrusted: str = "") -> dict[str, Any]:
    """Return a summary of makespans.

    `repeats_of` is a dictionary from policy to a dictionary from repeat to makespan; `untrusted` names a
    policy whose runs are not trusted.
    """
    first = next(iter(repeats_of.values()))
    policies: dict[str, Any] = {}
    for name, numbers in repeats_of.items():
        both = [{"makespan_s": numbers[r]} for r in numbers if r in first]
        others = [{"makespan_s": first[r]} for r in numbers if r in first]
        policies[name] = {
            "makespan_s": stats.leaf(list(numbers.values())),
            "paired": stats.differences(both, others) if numbers is not first else {},
            "fidelity": {"trusted": name != untrusted},
        }
    found = compare(policies, {name: list(numbers) for name, numbers in repeats_of.items()})
    return {"policies": policies, "comparison": found}


def makespans(mean: float, count: int, scatter: float = 1.0, turn: int = 0) -> dict[int, float]:
    """Return the makespans of the first `count` repeats: `mean` plus `scatter` times a fixed noise.

    The noise starts at position `turn`, so that policies can have different noise.
    """
    return {repeat: mean + scatter * NOISE[(repeat + turn) % len(NOISE)] for repeat in range(count)}


def test_a_clear_winner_is_best_starred_and_named() -> None:
    made = summary_of({"slow": makespans(20.0, 10), "fast": makespans(15.0, 10, turn=3)})
    assert best(made, MAKESPAN) == "fast" and differs_from_first(made["policies"], "fast", MAKESPAN)
    assert verdicts(made) == ["Best with 10 repeats: makespan (fast)."]
    assert made["comparison"]["comparisons"] == 1


def test_a_difference_within_the_scatter_is_not_best_and_says_what_it_takes() -> None:
    made = summary_of({"a": makespans(20.7, 3), "b": makespans(20.5, 3, turn=3)})
    assert best(made, MAKESPAN) is None and not differs_from_first(made["policies"], "b", MAKESPAN)
    (said,) = verdicts(made)
    needed = made["comparison"]["rows"][0]["repeats_needed"]
    assert needed > 3 and said.startswith("Cannot tell with 3 repeats which policy is best")
    assert f"makespan (about {needed})" in said


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_repeats_say_nothing(count: int) -> None:
    made = summary_of({"slow": makespans(90.0, count), "fast": makespans(15.0, count)})
    assert best(made, MAKESPAN) is None and not differs_from_first(made["policies"], "fast", MAKESPAN)
    assert "--repeats 3 is the least" in verdicts(made)[0]


@pytest.mark.parametrize("untrusted", ["slow", "fast"])
def test_an_untrusted_policy_is_neither_best_nor_starred_nor_beaten(untrusted: str) -> None:
    made = summary_of({"slow": makespans(20.0, 10), "fast": makespans(15.0, 10, turn=3)}, untrusted=untrusted)
    assert best(made, MAKESPAN) is None and not differs_from_first(made["policies"], "fast", MAKESPAN)
    assert "not trusted" in verdicts(made)[0]


def test_the_best_beats_every_other_policy() -> None:
    third = {
        "slow": makespans(20.0, 10),
        "fast": makespans(15.0, 10, turn=3),
        "near": makespans(15.1, 10, turn=6),
    }
    made = summary_of(third)
    assert best(made, MAKESPAN) is None
    assert differs_from_first(made["policies"], "fast", MAKESPAN) and differs_from_first(
        made["policies"], "near", MAKESPAN
    )


def test_repeats_are_paired_by_their_number() -> None:
    """Differences are between repeats of the same number, also if one policy lacks a repeat."""
    first = {repeat: 10.0 * repeat + 15.0 for repeat in range(10)}
    other = {repeat: 10.0 * repeat + 4.0 + NOISE[repeat] for repeat in range(1, 10)}
    made = summary_of({"first": first, "other": other})
    assert best(made, MAKESPAN) == "other"
    first = {repeat: 10.0 * repeat + 5.0 for repeat in range(10)}
    assert (
        best(summary_of({"first": first, "other": other}), MAKESPAN) is None
    )  # its mean is over an easier repeat


def test_equal_policies_are_no_comparison() -> None:
    made = summary_of({"a": makespans(20.0, 5), "b": makespans(20.0, 5)})
    assert made["comparison"]["comparisons"] == 0 and verdicts(made) == []
