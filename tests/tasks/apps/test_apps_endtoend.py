"""Every application as a whole job on an in-memory node: right results, the same bytes for any splits."""

from __future__ import annotations

import random
import re
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbed.tasks.appkit.app_catalogue import APPS, generate
from schedbed.tasks.apps.sort import sample_boundaries
from schedbed.tasks.apps.wordcount import WordCounts
from schedbed.tasks.errors import BadInput
from schedbed.tasks.specs import Cost, TaskKind
from schedbed.tasks.spill_formats import encode_counts
from tests.harness.memory_node import FakeCluster, a_spec

TEXT = b"".join(generate("text", 60_000, 3))
RECORDS = b"".join(generate("records", 100_000, 3))


def some_cuts(length: int, seed: int = 1, count: int = 5) -> list[int]:
    return random.Random(seed).sample(range(1, length), count)


def counts_in(part: bytes) -> dict[bytes, int]:
    return {line.split(b"\t")[0]: int(line.split(b"\t")[1]) for line in part.splitlines()}


def boundaries(data: bytes, reduces: int) -> list[str]:
    return sample_boundaries(lambda offset, length: data[offset : offset + length], len(data), reduces, 7)


def test_wordcount_agrees_with_a_counter_and_partitions_by_crc(tmp_path: Path) -> None:
    parts = FakeCluster(tmp_path, TEXT).job("wordcount", some_cuts(len(TEXT)), 3)
    counted = [counts_in(part) for part in parts]
    assert {word: n for part in counted for word, n in part.items()} == dict(Counter(TEXT.split()))
    assert all(zlib.crc32(word) % 3 == index for index, part in enumerate(counted) for word in part)
    assert all(list(part) == sorted(part) for part in counted)


@settings(max_examples=25, deadline=None)
@given(
    text=st.lists(
        st.sampled_from([b"a", b"bb", b" ", b"\n", b"\r\n", b"\t", b"\x0b", b"\xff", b"c" * 30]), max_size=60
    ),
    cuts=st.lists(st.integers(1, 200), max_size=6),
    piece=st.integers(1, 40),
)
def test_wordcount_gives_the_same_bytes_under_any_cut(text: list[bytes], cuts: list[int], piece: int) -> None:
    data = b"".join(text)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        whole = FakeCluster(Path(one), data).job("wordcount", [], 2)
        cut = FakeCluster(Path(other), data, piece).job("wordcount", [c for c in cuts if c < len(data)], 2)
    assert cut == whole
    assert {word: n for part in whole for word, n in counts_in(part).items()} == dict(Counter(data.split()))


@given(
    words=st.lists(
        st.binary(min_size=1, max_size=12) | st.sampled_from([b"a", b"a\0", b"12345678", b"123456789"])
    ),
    chunks=st.integers(1, 4),
)
def test_short_long_and_odd_words_are_counted_alike(words: list[bytes], chunks: int) -> None:
    collector = WordCounts(1)
    for part in range(chunks):
        collector.feed(b" ".join(words[part::chunks]) + b"\n")
    drained = b"".join(bytes(piece) for pieces in collector.drain() for piece in pieces)
    assert drained == encode_counts(Counter(b" ".join(words).split()))
    assert collector.buffered == 0


def test_sort_gives_all_records_in_order_over_the_parts(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, RECORDS)
    parts = cluster.job("sort", some_cuts(len(RECORDS)), 4, {"boundaries": boundaries(RECORDS, 4)})
    assert b"".join(parts) == b"".join(sorted(RECORDS[at : at + 100] for at in range(0, len(RECORDS), 100)))
    assert all(len(part) > 0.15 * len(RECORDS) for part in parts)
    assert sum(r["counters"]["records_out"] for r in cluster.reports[-4:]) == len(RECORDS) // 100


def test_sort_orders_records_that_share_their_keys_or_its_beginning(tmp_path: Path) -> None:
    coin = random.Random(5)
    keys = [b"same key!!", b"same key!a", b"same key\x00\x00", b"\xff" * 10, b"\x00" * 10]
    rows = [coin.choice(keys) + coin.randbytes(1) + b"\x00" * 88 + coin.randbytes(1) for _ in range(700)]
    data = b"".join(rows)
    parts = FakeCluster(tmp_path, data).job("sort", [30_000], 2, {"boundaries": [b"same key!a".hex()]})
    assert b"".join(parts) == b"".join(sorted(rows))
    assert {row[:10] for row in rows if row in parts[0]} == {b"\x00" * 10, b"same key!!", b"same key\x00\x00"}


@pytest.mark.parametrize(("app", "data", "reduces"), [("wordcount", TEXT, 2), ("sort", RECORDS, 2)])
def test_spilling_in_maps_and_reduces_changes_no_byte(
    tmp_path: Path, app: str, data: bytes, reduces: int
) -> None:
    params = {"boundaries": boundaries(data, reduces)} if app == "sort" else {}
    roomy = FakeCluster(tmp_path / "roomy", data).job(app, [20_000], reduces, params)
    cluster = FakeCluster(tmp_path / "tight", data)
    tight = cluster.job(app, [20_000], reduces, {**params, "sort_buffer": 5000, "shuffle_buffer": 3000})
    assert tight == roomy
    spilled = cluster.reports[1]["counters"]
    assert spilled["spill_bytes"] > 1.5 * spilled["output_bytes"]
    assert not list((tmp_path / "tight" / "attempts").glob("*/spill-*"))


def test_grep_counts_matches_line_by_line(tmp_path: Path) -> None:
    text = b"abc abd\r\nxx abc$\n\nab\nc abe"
    parts = FakeCluster(tmp_path, text, piece=3).job(
        "grep", [4, 11, 20], 2, {"pattern": r"ab\s?[a-z]$|ab[cd]"}
    )
    assert {k: n for part in parts for k, n in counts_in(part).items()} == {b"abc": 2, b"abd": 1, b"abe": 1}


def test_grep_counts_a_group(tmp_path: Path) -> None:
    parts = FakeCluster(tmp_path, b"k=1 k=2\nk=1").job("grep", [], 1, {"pattern": r"k=(\d)", "group": 1})
    assert parts == [b"1\t2\n2\t1\n"]


def test_pi_is_near_pi_and_counts_each_point_of_the_sequence_once(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    common = {"app": "pi", "params": {"samples": 5000}, "maps": 4}
    for index in range(4):
        cluster.attempt(a_spec(TaskKind.MAP, index, **common))
    cluster.attempt(a_spec(TaskKind.REDUCE, **common, output="/out"))
    assert abs(float(cluster.files["/out"]) - 3.14159) < 0.005
    in_one = FakeCluster(tmp_path / "one")
    single = {"app": "pi", "params": {"samples": 20_000}}
    in_one.attempt(a_spec(TaskKind.MAP, **single))
    in_one.attempt(a_spec(TaskKind.REDUCE, **single, output="/out"))
    assert in_one.files["/out"] == cluster.files["/out"]


def test_randomtextwriter_writes_as_much_as_asked_and_differs_by_map(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    for index in range(2):
        common = {"app": "randomtextwriter", "params": {"bytes": 30_000}, "reduces": 0}
        cluster.attempt(a_spec(TaskKind.MAP, index, output=f"/out/{index}", **common))
    first, second = cluster.files["/out/0"], cluster.files["/out/1"]
    assert (len(first), len(second)) == (30_000, 30_000)
    assert first != second and re.fullmatch(rb"([a-z]+[ \n])*[a-z]*\n", first)


def test_synthetic_moves_the_bytes_it_is_told_to(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, bytes(300_000), piece=50_000)
    cost = Cost(cpu_s=1.0, read_bytes=450_000, write_bytes=100_001)
    first, last = cluster.job("synthetic", [], 2, cost=cost)
    map_report, *reduces = cluster.reports
    assert map_report["partitions"] == [50_000, 50_001]
    assert [report["counters"]["shuffle_bytes"] for report in reduces] == [50_000, 50_001]
    assert (len(first), len(last)) == (100_001, 100_001) and first != last


def test_synthetic_without_reduces_writes_files(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    cluster.attempt(
        a_spec(TaskKind.MAP, app="synthetic", reduces=0, cost=Cost(write_bytes=700_000), output="/out")
    )
    assert len(cluster.files["/out"]) == 700_000


def test_parameters_are_checked() -> None:
    assert APPS["pi"].params({"samples": 3})["samples"] == 3
    with pytest.raises(BadInput, match=r"pi has no parameter 'sample', expected one of .*samples"):
        APPS["pi"].params({"sample": 3})
    with pytest.raises(BadInput, match="grep needs the parameter 'pattern'"):
        APPS["grep"].params({})


def test_every_application_is_registered_under_its_name() -> None:
    assert {name: app.name for name, app in APPS.items()} == {name: name for name in APPS}
    assert set(APPS) >= {"wordcount", "sort", "grep", "pi", "randomtextwriter", "synthetic"}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("app", "data", "params"),
    [
        ("sort", RECORDS, {"boundaries": boundaries(RECORDS, 2)}),
        ("grep", TEXT, {"pattern": "[aeiou]{2,}[ \\n]?"}),
        ("wordcount", TEXT, {}),
    ],
)
def test_any_cut_and_order_of_attempts_gives_the_same_bytes(
    tmp_path: Path, app: str, data: bytes, params: dict[str, object], seed: int
) -> None:
    whole = FakeCluster(tmp_path / "whole", data).job(app, [], 2, params)
    cut = FakeCluster(tmp_path / "cut", data, piece=random.Random(seed).randint(50, 5000))
    assert cut.job(app, some_cuts(len(data), seed, count=9), 2, params) == whole
