"""Generated input data: deterministic, and of the requested size and the promised form."""

from __future__ import annotations

from collections import Counter

import pytest

from schedbed.tasks.appkit.app_catalogue import generate
from schedbed.tasks.workloads.input_data import LABEL_WORDS, LABELS, PIECE_BYTES, vocabulary


def made(kind: str, size: int, seed: int = 1) -> bytes:
    return b"".join(generate(kind, size, seed))


@pytest.mark.parametrize("kind", ["text", "records", "edges", "documents", "views"])
def test_the_same_arguments_give_the_same_bytes_and_another_seed_others(kind: str) -> None:
    assert made(kind, 50_000) == made(kind, 50_000)
    assert made(kind, 50_000) != made(kind, 50_000, seed=2)


@pytest.mark.parametrize("kind", ["text", "records", "edges", "documents", "views"])
def test_a_larger_file_is_not_a_repetition(kind: str) -> None:
    pieces = list(generate(kind, 2 * PIECE_BYTES + 1000, 1))
    assert len(pieces) == 3 and pieces[0][:1000] != pieces[1][:1000]


@pytest.mark.parametrize("size", [1, 2, 79, 1000, 54_321, PIECE_BYTES + 1])
def test_text_is_exactly_as_long_as_asked_and_ends_with_a_newline(size: int) -> None:
    text = made("text", size)
    assert len(text) == size and text.endswith(b"\n") and b"\0" not in text


def test_text_has_lines_of_about_80_bytes_and_words_after_zipf() -> None:
    text = made("text", 500_000)
    lengths = [len(line) for line in text.splitlines()]
    assert 75 < sum(lengths) / len(lengths) < 85 and max(lengths) < 100
    counts = Counter(text.split()).most_common(100)
    assert counts[0][0] == vocabulary()[0]
    assert 1.6 < counts[0][1] / counts[1][1] < 2.5 and 60 < counts[0][1] / counts[99][1] < 160


@pytest.mark.parametrize("size", [0, 1, 100, 1050, 99_999])
def test_records_are_whole_and_numbered(size: int) -> None:
    data = made("records", size)
    assert len(data) == max(1, size // 100) * 100
    for index in range(len(data) // 100):
        row = data[100 * index : 100 * index + 100]
        assert int(row[12:44], 16) == index
        assert (row[10:12], row[44:48], row[96:]) == (b"\x00\x11", b"\x88\x99\xaa\xbb", b"\xcc\xdd\xee\xff")


def test_keys_of_records_are_spread_evenly() -> None:
    data = made("records", 1_000_000)
    firsts = Counter(data[at] // 64 for at in range(0, len(data), 100))
    assert all(2300 < firsts[quarter] < 2700 for quarter in range(4))


@pytest.mark.parametrize("size", [1, 50, 100_000])
def test_edges_are_whole_lines_that_fit_and_follow_a_power_law(size: int) -> None:
    data = made("edges", size)
    assert data.endswith(b"\n") and (size - 14 < len(data) <= size or size == 1)
    edges = [line.split(b"\t") for line in data.splitlines()]
    assert all(len(edge) == 2 and edge[0].isdigit() and edge[1].isdigit() for edge in edges)
    if size == 100_000:
        degrees = Counter(edge[1] for edge in edges).most_common(10)
        assert degrees[0][1] > 5 * degrees[9][1]


@pytest.mark.parametrize("size", [1, 3_000, 200_000])
def test_documents_are_pages_with_titles_of_their_own_and_words_of_their_label(size: int) -> None:
    data = made("documents", size)
    pages = [line.split(b"\t") for line in data.splitlines()]
    assert data.endswith(b"\n") and (len(data) <= size or len(pages) == 1)
    assert all(len(page) == 3 and page[1] in LABELS for page in pages)
    assert len({title for title, _, _ in pages}) == len(pages)
    if size == 200_000:
        assert len(data) > 0.9 * size
        physics = Counter(word for _, label, text in pages if label == b"physics" for word in text.split())
        law = Counter(word for _, label, text in pages if label == b"law" for word in text.split())
        common = set(vocabulary()[:LABEL_WORDS])
        own = [word for word, _ in physics.most_common() if word not in common][:30]
        assert sum(physics[word] for word in own) > 10 * sum(law[word] for word in own)


@pytest.mark.parametrize("size", [1, 60, 100_000])
def test_views_are_whole_lines_of_hourly_counts(size: int) -> None:
    data = made("views", size)
    lines = [line.split(b" ") for line in data.splitlines()]
    assert data.endswith(b"\n") and (size - 60 < len(data) <= size or len(lines) == 1)
    assert all(len(line) == 4 and int(line[2]) >= 1 and int(line[3]) > 0 for line in lines)
    if size == 100_000:
        articles = Counter(line[1] for line in lines).most_common(10)
        assert articles[0][1] > 5 * articles[9][1]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(KeyError):
        generate("images", 100, 1)


def test_no_word_twice_in_the_vocabulary() -> None:
    words = vocabulary()
    assert len(set(words)) == len(words) == 20_000 and all(2 <= len(word) <= 12 for word in words)
