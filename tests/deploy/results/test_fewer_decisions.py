"""The decisions that are left out of a huge table change no cause of a wait."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from schedbed.deploy.results.measures.fewer_decisions import needed
from schedbed.deploy.results.measures.passed_over import SkipWindows
from schedbed.tasks.chance import chance

REASONS = ("waits for a local node: 1.0 of 5.0 s", "waits for a rack-local node: 2.0 s", "over its share")


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
    for kind in ("map", "reduce"):
        of_kind = rows[rows["kind"] == kind]
        attempts = of_kind[of_kind["answer"] == "launch"].rename(columns={"t": "assigned"})
        shares = []
        for table in (of_kind, fewer[fewer["kind"] == kind]):
            windows = SkipWindows.of(table[table["answer"] == "skip"], attempts)
            for for_data in (True, False):
                for place in range(len(windows.jobs)):
                    waits = windows.around(np.full(40, place), since, until).because(for_data=for_data)
                    shares.append((windows.jobs[place], for_data, waits.share(lambda at: at)))
        half = len(shares) // 2
        for (name, data, one), (other_name, other_data, other) in zip(
            shares[:half], shares[half:], strict=True
        ):
            assert (name, data) == (other_name, other_data)
            assert one == pytest.approx(other, abs=1e-9)


def test_all_decisions_about_drawn_nodes_stay() -> None:
    rows = drawn_rows(99)
    kept = needed(rows, {"n2"})
    assert kept[(rows["node"] == "n2").to_numpy()].all() and not kept.all()
    assert not kept[((rows["answer"] == "launch") & (rows["node"] != "n2")).to_numpy()].any()
