"""The optimization in the order axis COSHH: finds classes of similar jobs by k-means, and assigns classes to
kinds of hardware by a linear program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans, vq
from scipy.optimize import linprog

_NOTHING = 1e-6  # Smaller parts of a resource count as 0.


def classify(features: Sequence[Sequence[float]], most: int) -> list[int]:
    """Return each job's class number by k-means, with ascending first feature.

    Features are scaled by standard deviations. The first centers are spread evenly over the sorted jobs, not
    drawn, so equal input gives equal classes.
    """
    points: Any = np.asarray(features, dtype=float)
    spread = points.std(axis=0)
    points = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    distinct: Any = np.unique(points, axis=0)
    count = min(most, len(distinct))
    if count < 2:
        return [0] * len(points)
    first = distinct[np.linspace(0, len(distinct) - 1, count).round().astype(int)]
    centers: Any = kmeans(points, first)[0]
    centers = centers[np.lexsort(centers.T[::-1])]
    return [int(label) for label in vq(points, centers)[0]]


def suggest(
    arrivals: Sequence[float], times_s: Sequence[Sequence[float]], slots: Sequence[int]
) -> list[set[int]]:
    """Return the set of job classes that each resource (kind of hardware) should serve, where x_ij is above
    0.

    A linear program chooses the fraction x_ij of resource j's time for class i to maximize the multiple m of
    all arrivals: the sum over j of slots_j x_ij / times_ij is at least m arrivals_i, and the sum over i of
    x_ij at most 1. `times_s[i][j]` are seconds of a task.
    """
    classes, resources = len(arrivals), len(slots)
    every = set(range(classes))
    if not classes or min(arrivals) <= 0 or sum(slots) == 0:
        return [every for _ in slots]
    parts = classes * resources
    demands = np.zeros((classes, parts + 1))
    capacities = np.zeros((resources, parts + 1))
    for i in range(classes):
        demands[i, parts] = arrivals[i]
        for j in range(resources):
            demands[i, i * resources + j] = -slots[j] / times_s[i][j]
            capacities[j, i * resources + j] = 1.0
    goal = np.zeros(parts + 1)
    goal[parts] = -1.0
    bounds = np.concatenate([np.zeros(classes), np.ones(resources)])
    solved: Any = linprog(goal, A_ub=np.vstack([demands, capacities]), b_ub=bounds, method="highs")
    if not solved.success:
        return [every for _ in slots]
    found = solved.x[:parts].reshape(classes, resources)
    return [{i for i in every if found[i, j] > _NOTHING} for j in range(resources)]
