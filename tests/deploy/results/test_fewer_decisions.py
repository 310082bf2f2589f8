"""The decisions that are left out of a huge table change no cause of a wait."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedbed.deploy.results.measures.wait_causes import SkipWindows, needed
from schedbed.scheduler.core.core_tables import CoreTables
from schedbed.scheduler.core.rows import DecisionRow
from schedbed.tasks.chance import chance
from schedbed.tasks.specs import TaskKind
from tests.scheduler.core.test_mixed_history import mixed_world

REASONS = (
    "waits for a local node, up to 5.0 s",
    "waits for a rack-local node, up to 5.0 s",
    "over its share",
)


def drawn_rows(seed: int) -> pd.DataFrame:
    """Return random decisions about three jobs on four nodes, many of them at equal times."""
    luck = chance(seed, "decisions")
    rows, t = [], 0.0
    for _ in range(200):
        t += luck.choice((0.0, 0.0, 1.0))
        is_skip = luck.random() < 0.8
        reason = luck.choice(REASONS) if is_skip else "node-local"
        where = (f"n{luck.randint(1, 4)}", f"job_{luck.randint(1, 3)}")
        rows.append((t, *where, luck.choice(("map", "reduce")), "skip" if is_skip else "launch", reason))
    return pd.DataFrame(rows, columns=pd.Index(["t", "node", "job", "kind", "answer", "reason"]))


@pytest.mark.parametrize("seed", range(12))
def test_the_waits_of_tasks_keep_their_causes(seed: int) -> None:
    rows, luck = drawn_rows(seed), chance(seed, "waits")
    cuts = [0, 61, 130, len(rows)]  # As read from a file, in groups of rows.
    kept = np.concatenate([needed(rows[low:high], ()) for low, high in pairwise(cuts)])
    fewer = rows[kept]
    assert len(fewer) < len(rows)
    since = np.array([luck.uniform(0, 60) for _ in range(40)])
    until = since + np.array([luck.uniform(0, 30) for _ in range(40)])
    launches = rows[rows["answer"] == "launch"].rename(columns={"t": "assigned"})
    check_same_shares(rows, fewer, launches, since, until)


def check_same_shares(
    rows: pd.DataFrame, fewer: pd.DataFrame, attempts: pd.DataFrame, since: np.ndarray, until: np.ndarray
) -> None:
    """Check that both tables of decisions give the same causes to waits of each job from `since` to `until`."""
    for kind in ("map", "reduce"):
        mine = attempts[attempts["kind"] == kind]
        shares = []
        for table in (rows, fewer):
            windows = SkipWindows.of(table[(table["answer"] == "skip") & (table["kind"] == kind)], mine)
            for for_data in (True, False):
                for place in range(len(windows.jobs)):
                    waits = windows.around(np.full(len(since), place), since, until)
                    share = waits.because(for_data=for_data).share(lambda at: at)
                    shares.append((windows.jobs[place], for_data, share))
        half = len(shares) // 2
        for (name, data, one), (other_name, other_data, other) in zip(
            shares[:half], shares[half:], strict=True
        ):
            assert (name, data) == (other_name, other_data)
            assert one == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize("policy", ["delay:node_wait=1s,rack_wait=500ms", "fgcs", "capacity"])
def test_refusals_that_the_core_does_not_repeat_change_no_cause(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer, attempts = rows_of_a_world(policy)
    monkeypatch.setattr(CoreTables, "skip", repeated)
    rows, all_attempts = rows_of_a_world(policy)
    assert all_attempts.equals(attempts) and len(fewer) < len(rows)
    luck = chance(7, "waits")
    since = np.array([luck.uniform(0, rows["t"].max()) for _ in range(300)])
    check_same_shares(rows, fewer, attempts, since, since + np.array([luck.uniform(0, 30) for _ in since]))


def rows_of_a_world(policy: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the decisions and the attempts of a story with failures under the policy."""
    tape = mixed_world(policy).run().tape
    decisions, attempts = (pd.DataFrame(rows) for rows in (tape.decisions, tape.attempts))
    return decisions, attempts


def repeated(core: Any, node: Any, job: Any, kind: TaskKind, reason: str) -> None:
    """Write a row for each refusal, in place of `CoreTables.skip`."""
    core._sink.decision(DecisionRow(core.now_s, node.node, job.job, "", kind.value, "skip", reason))


def test_all_decisions_about_drawn_nodes_stay() -> None:
    rows = drawn_rows(99)
    kept = needed(rows, {"n2"})
    assert kept[(rows["node"] == "n2").to_numpy()].all() and not kept.all()
    assert not kept[((rows["answer"] == "launch") & (rows["node"] != "n2")).to_numpy()].any()
