"""The papers' applications against simple references, for any splits of the input and number of reduces."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedbed.tasks.appkit.app_catalogue import APPS, check_output, generate
from schedbed.tasks.appkit.part_files import Ran
from schedbed.tasks.apps import bbp as bbp_app
from schedbed.tasks.apps.etl import rows_of
from schedbed.tasks.specs import TaskKind
from tests.harness.memory_node import FakeCluster, a_spec, report_of

MACHIN_DIGITS = 400


def made(kind: str, size: int, seed: int = 3) -> bytes:
    return b"".join(generate(kind, size, seed))


DOCUMENTS = made("documents", 40_000)
VIEWS = made("views", 30_000)
EDGES = b"".join(b"%d\t%d\n" % (random.Random(n).randrange(40), n * 7919 % 37) for n in range(900))
RECORDS = made("records", 300_000)
TEXT = made("text", 20_000)
INPUTS = {"bayes": DOCUMENTS, "tfidf": DOCUMENTS, "wikitrends": VIEWS, "twitter": EDGES}
INPUTS |= {"select": RECORDS, "combine": TEXT, "wordcount": TEXT, "etl": TEXT, "grep": TEXT}
PARAMS: dict[str, dict[str, Any]] = {
    "select": {"keep_map": 0.3, "keep_reduce": 0.2},
    "grep": {"pattern": "[ae]t"},
    "bbp": {"start": 30, "digits": 203},
    "teragen": {"bytes": 5_040},
}


def run(root: Path, app: str, data: bytes, cuts: list[int], reduces: int, piece: int = 1000) -> list[bytes]:
    """Run a job of an application over `data`, split at the offsets `cuts`; return the output parts.

    Applications without reduces or without input are supported. Reads return pieces of `piece` bytes.
    """
    cluster, params = FakeCluster(root, data, piece), PARAMS.get(app, {})
    if APPS[app].reduces == "needed" and APPS[app].input != "none":
        return cluster.job(app, [cut for cut in cuts if 0 < cut < len(data)], reduces, params)
    splits = list(pairwise(sorted({0, len(data), *cuts}))) or [(0, 0)]
    needed = APPS[app].reduces == "needed"
    common = {"app": app, "params": params, "maps": len(splits), "reduces": reduces if needed else 0}
    for index, (low, high) in enumerate(splits):
        where = {"file": "/in", "offset": low, "length": high - low, "file_length": len(data)}
        output = None if needed else f"/out/{index}"
        cluster.attempt(a_spec(TaskKind.MAP, index, **common, **where, output=output))
    for index in range(reduces if needed else 0):
        cluster.attempt(a_spec(TaskKind.REDUCE, index, **common, output=f"/out/{index}"))
    return [cluster.files[f"/out/{index}"] for index in range(reduces if needed else len(splits))]


def checked(app: str, data: bytes, parts: list[bytes], maps: int = 1) -> str | None:
    """Return the verdict of the application's check, which reads the input and the parts in uneven pieces."""
    pieces = [data[at : at + 777] for at in range(0, len(data), 777)]
    cut = [[part[:333], part[333:]] for part in parts]
    return check_output(app, Ran(APPS[app].params(PARAMS.get(app, {})), maps), pieces, cut)


def lines_of(parts: list[bytes]) -> dict[bytes, bytes]:
    """Return the lines `key<TAB>value` of all parts as a dictionary. Check that no key occurs twice."""
    split = [line.rpartition(b"\t") for part in parts for line in part.splitlines()]
    assert len({key for key, _, _ in split}) == len(split)
    return {key: value for key, _, value in split}


def pages() -> list[tuple[bytes, bytes, Counter[bytes]]]:
    fields = [line.split(b"\t") for line in DOCUMENTS.splitlines()]
    return [(title, label, Counter(text.split())) for title, label, text in fields]


@pytest.mark.parametrize("app", ["bayes", "tfidf", "wikitrends", "twitter", "select", "combine", "grep"])
def test_no_cut_and_no_number_of_reduces_changes_the_result(tmp_path: Path, app: str) -> None:
    data = INPUTS[app]
    whole = run(tmp_path / "whole", app, data, [], 3)
    cuts = random.Random(app).sample(range(1, len(data)), 6)
    assert run(tmp_path / "cut", app, data, cuts, 3, piece=611) == whole
    single = run(tmp_path / "single", app, data, cuts, 1)
    assert checked(app, data, whole) is None and checked(app, data, single) is None
    if app == "twitter":
        adds = Counter(dict.fromkeys(lines_of(single), 0))
        for part in whole:
            adds.update({key: int(value) for key, value in lines_of([part]).items()})
        assert adds == {key: int(value) for key, value in lines_of(single).items()}
    else:
        rows = [sorted(b"".join(parts).splitlines()) for parts in (whole, single)]
        assert rows[0] == rows[1] and len(rows[0]) > 1


@pytest.mark.parametrize("app", ["bayes", "tfidf", "twitter"])
def test_spilling_changes_no_byte(tmp_path: Path, app: str) -> None:
    data = INPUTS[app]
    roomy = FakeCluster(tmp_path / "roomy", data).job(app, [], 2)
    tight = FakeCluster(tmp_path / "tight", data)
    assert tight.job(app, [], 2, {"sort_buffer": 20_000, "shuffle_buffer": 3000}) == roomy
    spilled = tight.reports[0]["counters"]
    assert spilled["spill_bytes"] > 1.5 * spilled["output_bytes"]


def test_bayes_adds_up_pages_and_normalised_counts_by_label(tmp_path: Path) -> None:
    found = lines_of(run(tmp_path, "bayes", DOCUMENTS, [9_999], 2))
    labels = Counter(label for _, label, _ in pages())
    assert {key: int(n) for key, n in found.items() if key.startswith(b"label\t")} == {
        b"label\t" + label: count for label, count in labels.items()
    }
    weights: defaultdict[bytes, float] = defaultdict(float)
    for _, label, words in pages():
        length = math.hypot(*words.values())
        for word, count in words.items():
            weights[b"weight\t" + label + b"\t" + word] += math.log(1 + count) / length
    got = {key: int(n) / 1e6 for key, n in found.items() if key.startswith(b"weight")}
    assert got.keys() == weights.keys()
    assert all(abs(got[key] - weights[key]) < 1e-5 for key in got)
    shared = sum(key.startswith(b"pages\t") for key in found)
    assert shared == len(weights) and len(found) == 2 * shared + len(labels)


def test_tfidf_weighs_each_word_of_each_page(tmp_path: Path) -> None:
    found = lines_of(run(tmp_path, "tfidf", DOCUMENTS, [5_000, 20_001], 2))
    documents = pages()
    spread = Counter(word for _, _, words in documents for word in words)
    wanted = {
        b"%b\t%b\t%d" % (word, title, n): n**0.5 * (math.log(len(documents) / (spread[word] + 1)) + 1)
        for title, _, words in documents
        for word, n in words.items()
    }
    assert found.keys() == wanted.keys()
    assert all(abs(float(found[key]) - wanted[key]) < 1e-6 for key in wanted)


def test_wikitrends_adds_up_views_and_skips_what_is_no_line_of_them(tmp_path: Path) -> None:
    data = VIEWS + b"en Main_Page 5 1\r\nnonsense\nen Main_Page x 1\nen Main_Page 7 1 1\nen Main_Page 2 1"
    found = lines_of(run(tmp_path, "wikitrends", data, [10_000], 2))
    wanted: Counter[bytes] = Counter()
    for line in VIEWS.splitlines():
        project, title, views, _ = line.split(b" ")
        wanted[project + b" " + title] += int(views)
    wanted[b"en Main_Page"] += 7
    assert {key: int(n) for key, n in found.items()} == wanted


def test_wikitrends_of_one_project(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path, b"en A 1 9\nde A 2 9\nen B 3 9\nen A 4 9\n")
    assert cluster.job("wikitrends", [], 1, {"project": "en"}) == [b"en A\t5\nen B\t3\n"]


def test_twitter_counts_links_that_are_not_returned(tmp_path: Path) -> None:
    edges = {tuple(line.split(b"\t")) for line in EDGES.splitlines()}
    assert len(edges) < EDGES.count(b"\n")  # some are there twice
    asymmetric = sum((j, i) not in edges for i, j in edges)
    mutual = sum((j, i) in edges for i, j in edges if i < j)
    assert asymmetric > 50 and mutual > 50 and any(i == j for i, j in edges)
    found = run(tmp_path, "twitter", b"# from to\n" + EDGES, [700], 1)
    assert found == [b"asymmetric\t%d\nmutual\t%d\n" % (asymmetric, mutual)]


def test_select_keeps_about_its_share_by_key_and_sorts(tmp_path: Path) -> None:
    parts = run(tmp_path, "select", RECORDS, [12_345], 3)
    rows = [part[at : at + 100] for part in parts for at in range(0, len(part), 100)]
    assert rows == sorted(rows) and 120 < len(rows) < 240  # 6% of 3000
    own = {RECORDS[at : at + 100] for at in range(0, len(RECORDS), 100)}
    assert len(set(rows)) == len(rows) and set(rows) <= own
    bounds = [b"", *(bytes([85] * 10), bytes([170] * 10)), b"\xff" * 11]
    assert all(low <= part[:10] < high for part, (low, high) in zip(parts, pairwise(bounds), strict=True))


def test_select_of_everything_is_a_sort(tmp_path: Path) -> None:
    parts = FakeCluster(tmp_path, RECORDS).job("select", [], 1, {"keep_map": 1.0, "keep_reduce": 1.0})
    assert parts[0] == b"".join(sorted(RECORDS[at : at + 100] for at in range(0, len(RECORDS), 100)))


def test_combine_is_gridmixs_wordcount(tmp_path: Path) -> None:
    parts = run(tmp_path, "combine", TEXT, [5_000], 2)
    assert {word: int(n) for word, n in lines_of(parts).items()} == Counter(TEXT.split())


def test_teragen_numbers_its_records_over_all_maps(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    for index in range(3):
        common = {"app": "teragen", "params": PARAMS["teragen"], "maps": 3, "reduces": 0}
        cluster.attempt(a_spec(TaskKind.MAP, index, **common, output=f"/out/{index}"))
    parts = [cluster.files[f"/out/{index}"] for index in range(3)]
    data = b"".join(parts)
    assert [len(part) for part in parts] == [5_000] * 3
    assert [int(data[at + 12 : at + 44], 16) for at in range(0, 15_000, 100)] == list(range(150))
    assert len({data[at : at + 10] for at in range(0, 15_000, 100)}) == 150
    assert checked("teragen", b"", parts, maps=3) is None
    assert checked("teragen", b"", [parts[1], parts[0], parts[2]], maps=3) is not None
    assert checked("teragen", b"", parts[:2], maps=3) == "100 records, expected 150"


ODD = [b"a", b"&<>", b"\t", b"\r", b"\n", b"\0", b"\x1f", b"\xe2\x82", b"\xff", "é€\U0001f600\ufffe".encode()]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(ODD), max_size=30).map(b"".join), st.lists(st.integers(1, 60), max_size=3))
def test_etl_writes_the_lines_as_xml_under_any_cut(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, cuts: list[int]
) -> None:
    root = tmp_path_factory.mktemp("etl")
    parts = run(root, "etl", text, [cut for cut in cuts if cut < len(text)], 0, piece=7)
    rows = [[c.text or "" for c in row] for part in parts for row in ElementTree.fromstring(part)]
    expected = [line.split("\t") for line in text.decode(errors="replace").split("\n")]
    if text.endswith(b"\n") or not text:
        expected.pop()
    odd = str.maketrans(dict.fromkeys("\0\x1f\ufffe", "\ufffd"))
    assert rows == [[cell.translate(odd) for cell in row] for row in expected]
    assert checked("etl", text, parts) is None


def test_rows_look_as_documented() -> None:
    assert rows_of(b"a\tb<\n\n") == b"<row><c>a</c><c>b&lt;</c></row>\n<row><c></c></row>\n"


def machin(digits: int) -> str:
    """Return the first `digits` hexadecimal digits of pi after the point, by Machin's formula."""
    unit = 16 ** (digits + 10)

    def arctan_inverse(x: int) -> int:
        power, total, n = unit // x, 0, 0
        while power:
            total += (-1) ** n * (power // (2 * n + 1))
            power //= x * x
            n += 1
        return total

    return f"{4 * (4 * arctan_inverse(5) - arctan_inverse(239)) // 16**10:x}"[1:]


@pytest.mark.parametrize(("maps", "reduces"), [(1, 1), (4, 1), (7, 3), (60, 2)])
def test_bbp_gives_the_digits_of_pi(tmp_path: Path, maps: int, reduces: int) -> None:
    cluster = FakeCluster(tmp_path)
    common = {"app": "bbp", "params": PARAMS["bbp"], "maps": maps, "reduces": reduces}
    for index in range(maps):
        cluster.attempt(a_spec(TaskKind.MAP, index, **common))
    for index in range(reduces):
        cluster.attempt(a_spec(TaskKind.REDUCE, index, **common, output=f"/out/{index}"))
    parts = [cluster.files[f"/out/{index}"] for index in range(reduces)]
    digits = b"".join(line.split(b"\t")[1] for part in parts for line in part.splitlines())
    assert digits.decode() == machin(MACHIN_DIGITS)[29:232]
    assert checked("bbp", b"", parts) is None
    assert all(parts)


def test_digits_that_rounding_could_reach_are_computed_with_more_bits() -> None:
    assert [bbp_app._exactly(first) for first in (0, 5, 333)] == [bbp_app.group_at(at) for at in (0, 5, 333)]
    assert not bbp_app._sure(0x243F6A88 << 32, 100, 64)  # all bits below are zero
    assert bbp_app._sure((0x243F6A88 << 32) + (1 << 31), 100, 64)


@given(st.integers(1, 10**6), st.integers(1, 5000), st.integers(1, 40))
def test_every_group_of_digits_has_one_map(start: int, digits: int, maps: int) -> None:
    shares = bbp_app.groups_of(start, digits, maps)
    assert [group for share in shares for group in share] == list(range(-(-digits // 8)))
    assert len(shares) == maps


@pytest.mark.parametrize(
    ("app", "data", "told"),
    [
        ("bayes", b"a\tb\tc\nno page\n", "a line that is no page: 'no page'"),
        ("tfidf", b"x\ty", "a line that is no page: 'x\\ty'"),
        ("twitter", b"1 2\n1 2 3\n", "a line that is no edge: '1 2 3'"),
    ],
)
def test_a_line_of_another_kind_fails_the_attempt_with_it(
    tmp_path: Path, app: str, data: bytes, told: str
) -> None:
    cluster = FakeCluster(tmp_path, data)
    spec = a_spec(TaskKind.MAP, app=app, file="/in", length=len(data), file_length=len(data))
    with pytest.raises(AssertionError):
        cluster.attempt(spec)
    assert report_of(tmp_path, spec)["reason"].startswith(told)


@pytest.mark.parametrize(
    "app", ["bayes", "tfidf", "wikitrends", "twitter", "select", "combine", "grep", "etl"]
)
def test_what_is_wrong_in_an_output_is_found(tmp_path: Path, app: str) -> None:
    data = INPUTS[app]
    parts = run(tmp_path, app, data, [], 1)
    assert checked(app, data, parts) is None
    unit = 100 if app == "select" else 1 + parts[0].index(b"\n", len(parts[0]) // 2) - len(parts[0]) // 2
    middle = len(parts[0]) // 200 * 100 if app == "select" else len(parts[0]) // 2
    lost = parts[0][:middle] + parts[0][middle + unit :]
    doubled = parts[0][: middle + unit] + parts[0][middle:]
    for wrong in (lost, doubled, b"", parts[0] + b"x\t1\n"):
        assert checked(app, data, [wrong])
    changed = bytearray(parts[0])
    last = max(at for at, byte in enumerate(changed) if chr(byte).isdigit() or app in ("select", "etl"))
    changed[last] ^= 1
    assert checked(app, data, [bytes(changed)])


def test_every_application_but_those_without_a_result_is_checked() -> None:
    assert {name for name, app in APPS.items() if app.check is None} == {
        "pi",
        "randomtextwriter",
        "streaming",
        "synthetic",
    }


@pytest.mark.parametrize("app", sorted(set(APPS) - {"synthetic"}))
def test_parameters_are_documented(app: str) -> None:
    assert APPS[app].summary and all(parameter.doc for parameter in APPS[app].parameters)
    assert APPS[app].paper or app == "streaming", "no paper uses it"
