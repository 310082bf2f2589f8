"""Data frames arrive from the process of a user's policy as they were sent, and nothing else is accepted."""

from __future__ import annotations

import copy
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pytest

from schedbed.deploy.simulated.one_run import SentRows, pack, unpack
from schedbed.scheduler.simulate.row_frames import Text, as_frame


def heartbeats(**changes: Any) -> pd.DataFrame:
    numbers = pd.Series([1, 2, 3])
    columns: dict[str, Any] = {
        "t": numbers * 0.1,
        "node": Text(pd.Series([1, 0, 1], dtype="int8").to_numpy(), ["n1", "n2"]),
        "running_maps": numbers,
        "running_reduces": numbers.astype("int32"),
        "cpu_util": numbers / 3,
        "disk_util": pd.Series([0.5, float("nan"), 1e-300]),
        "net_util": numbers / 7,
        "memory_bytes": numbers * 2**40,
        "service_s": numbers * 0.0,
    }
    return as_frame("heartbeats", columns | changes)


@pytest.mark.parametrize("changes", [{}, {"node": ["n1", "a node with ä", ""]}])
def test_a_frame_arrives_as_it_was_sent(changes: dict[str, Any]) -> None:
    data = heartbeats(**changes)
    found = unpack("heartbeats", json.loads(json.dumps(pack(data))))
    pd.testing.assert_frame_equal(found, data)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("t", ["<O8", "AAAA"]),
        ("t", ["<f8", "AAAA"]),
        ("t", ["<f8", "no base64!"]),
        ("t", ["<f8", ""]),
        ("t", []),
        ("t", 5),
        ("t", [[1.0, 2.0, 3.0]]),
        ("node", ["|i1", "AQAB", ["n1"]]),
        ("node", ["|i1", "/wAB", ["n1", "n2"]]),
        ("node", ["|i1", "AQAB", ["n1", 2]]),
        ("node", ["<f8", "AQAB", ["n1", "n2"]]),
        ("node", ["", "AQAB", ["n1", "n2"]]),
        ("node", [["n1", "n2"]]),
        ("node", [["n1", "n2", None]]),
        ("node", None),
        ("other", [["n1", "n2", "n1"]]),
    ],
)
def test_what_no_frame_became_is_refused(column: str, value: Any) -> None:
    packed = copy.deepcopy(pack(heartbeats()))
    packed[column] = value
    with pytest.raises((KeyError, TypeError, ValueError)):
        unpack("heartbeats", packed)


@pytest.mark.parametrize(("table", "columns"), [("no table", {}), ("heartbeats", {}), ("heartbeats", None)])
def test_a_frame_of_another_table_is_refused(table: str, columns: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        unpack(table, columns)


def test_messages_of_two_threads_do_not_mix() -> None:
    """A thread sends the rows of the compiled loop while the main thread tells the progress."""
    inside, most = Counter[str](), list[int]()

    def send(message: Any) -> None:
        inside[message[0]] += 1
        time.sleep(0.001)  # Lets the other thread run.
        most.append(sum(inside.values()))
        inside[message[0]] -= 1

    sent = SentRows(send)

    calls = (
        lambda: sent.show(1.0, 1),
        lambda: sent.append_frame("heartbeats", heartbeats()),
        lambda: sent.append("jobs", [("a", 2)]),
    )
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(call) for _ in range(20) for call in calls]:
            done.result()
    assert len(most) > 40 and set(most) == {1}
