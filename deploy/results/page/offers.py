"""The policies' answers to offers of slots, for the report: counts by reason, and reasons for each
attempt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schedbed.deploy.results.measures.coded import Coded, filled
from schedbed.deploy.results.metrics import RunTables

if TYPE_CHECKING:
    import pandas as pd

PASSES_MAX = 3_000
"""The most runs of equal answers per policy in the page; those with the fewest answers are left out."""
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def sums(mine: RunTables) -> dict[tuple[str, str], int]:
    """Count the policy's answers to offers of slots in the run `mine`, by answer and reason.

    Return a dictionary from the pair (answer, reason) to the number of these answers. Reasons that differ
    only in the numbers they contain are counted together.
    """
    data = mine.tables["decisions"]
    if not len(data):
        return {}
    answers, reasons = Coded.of(data["answer"]), _kinds(data["reason"])
    pairs, counts = np.unique(answers.codes * len(reasons.names) + reasons.codes, return_counts=True)
    places = zip(*np.divmod(pairs, len(reasons.names)), strict=True)
    return {
        (str(answers.names[answer]), str(reasons.names[reason])): count
        for (answer, reason), count in zip(places, counts.tolist(), strict=True)
    }


def of_attempts(mine: RunTables, drawn: pd.DataFrame, jobs: Sequence[str]) -> dict[str, Any]:
    """Return why the attempts in `drawn` were launched, and when the policy skipped or rejected whole jobs.

    `mine` contains the run's tables, and `jobs` the ids of all jobs. In the result, `reasons` lists texts.
    `launched` contains the index of each attempt's reason in `reasons`, or -1. `passes` contains the skips
    and rejections in columns, with consecutive equal answers about a job combined to one row: `job` (index
    in `jobs`), `kind` (0 map, 1 reduce), `from` and `to` in hundredths of a second, `count` (the number of
    answers), `nodes` (the number of nodes), and `reason` (index in `reasons`). `left_out` is the number of
    answers that are not in `passes`.
    """
    reasons: dict[str, int] = {}
    launched = [-1 if not why else reasons.setdefault(why, len(reasons)) for why in _launches(mine, drawn)]
    passes = _stretches(mine.tables["decisions"])
    kept = passes.nlargest(PASSES_MAX, "count").sort_values("first", kind="stable")
    places = {job: place for place, job in enumerate(jobs)}
    return {
        "launched": launched,
        "passes": {
            "job": [places.get(job, -1) for job in kept["job"]],
            "kind": (kept["kind"] == "reduce").astype(int).tolist(),
            "from": (kept["first"] * 100).round().astype(int).tolist(),
            "to": (kept["last"] * 100).round().astype(int).tolist(),
            "count": kept["count"].tolist(),
            "nodes": kept["nodes"].tolist(),
            "reason": [
                reasons.setdefault(f"{answer}: {why}" if why else answer, len(reasons))
                for answer, why in zip(kept["answer"], kept["reason"], strict=True)
            ],
        },
        "reasons": list(reasons),
        "left_out": int(passes["count"].sum() - kept["count"].sum()),
    }


def _launches(mine: RunTables, drawn: pd.DataFrame) -> list[str]:
    """Return the reason for which each attempt in `drawn` was launched, or "" if there is none.

    A reason belongs to an answer of the policy. The last answer that launched the attempt's task on its node,
    before the attempt was assigned, is used.
    """
    data = mine.tables["decisions"]
    data = data[data["answer"].isin(["launch", "split"])].sort_values("t", kind="stable")
    found: dict[tuple[str, str], list[tuple[float, str]]] = {}
    why = filled(data["reason"]).astype(str)
    for task, node, t, reason in zip(data["task"], data["node"], data["t"], why, strict=True):
        found.setdefault((task, node), []).append((t, reason))
    made: list[str] = []
    for task, node, assigned in zip(drawn["task"], drawn["node"], drawn["assigned"], strict=True):
        before = [reason for t, reason in found.get((task, node), ()) if t <= assigned + 1e-6]
        made.append(before[-1] if before else "")
    return made


def _stretches(decisions: pd.DataFrame) -> pd.DataFrame:
    """Return a table of the policy's answers about whole jobs (skip or reject), with one row per time span.

    Consecutive equal answers form one time span. Its row contains the answer, the reason, the first and last
    time, and the numbers of answers and nodes.
    """
    import pandas as pd

    whole = decisions["task"].isna() | (decisions["task"] == "")
    data = decisions[whole & decisions["answer"].isin(["skip", "reject"])]
    kinds = _kinds(data["reason"])
    reason = pd.Series(kinds.names.astype(object)[kinds.codes], index=data.index, dtype="str")
    data = data.assign(reason=reason).sort_values(["job", "kind", "t"], kind="stable")
    keys = data[["job", "kind", "answer", "reason"]]
    changes = (keys != keys.shift()).any(axis=1).to_numpy() if len(data) else np.zeros(0, bool)
    return (
        data.assign(stretch=np.cumsum(changes))
        .groupby("stretch", sort=False)
        .agg(
            job=("job", "first"),
            kind=("kind", "first"),
            answer=("answer", "first"),
            reason=("reason", "first"),
            first=("t", "min"),
            last=("t", "max"),
            count=("t", "size"),
            nodes=("node", "nunique"),
        )
    )


def _kinds(reasons: pd.Series) -> Coded:
    """Return the reasons with each number replaced by `…`, so that similar reasons become equal."""
    coded = Coded.of(filled(reasons))
    return coded.renamed({name: NUMBER.sub("…", name) for name in coded.names.tolist()})
