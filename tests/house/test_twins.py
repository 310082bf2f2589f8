"""A compiled function and the function that it mirrors are edited together."""

from __future__ import annotations

import ast

import pytest

from tests.house.twins import UPDATE, Hashes, Pair, faults, functions, hash_of, kept, originals_of, pairs

PAIR = Pair("compiled/a.py:f", "core/b.py:C.g")
KEPT = {PAIR: Hashes("1", "2")}


def test_twins_stand_as_they_were_last_compared() -> None:
    found = faults(pairs(), kept())
    assert not found, "\n".join(found)


def test_whoever_mirrors_something_says_what() -> None:
    silent = [
        place
        for place, function in functions()
        if (ast.get_docstring(function) or "").startswith("Mirrors") and not originals_of(function)
    ]
    assert not silent
    assert len(pairs()) > 100


@pytest.mark.parametrize(
    ("hashes", "words"),
    [
        (Hashes("1", "9"), f"{PAIR.original} has changed, its compiled twin {PAIR.twin} has not"),
        (Hashes("9", "2"), f"{PAIR.twin} has changed, but not {PAIR.original}"),
        (Hashes("9", "9"), f"{PAIR.original} and its compiled twin {PAIR.twin} have changed"),
        (Hashes("1", ""), f"{PAIR.twin} mirrors {PAIR.original}, which is not there"),
    ],
)
def test_a_change_at_one_end_names_the_other(hashes: Hashes, words: str) -> None:
    (fault,) = faults({PAIR: hashes}, KEPT)
    assert fault.startswith(words)
    assert fault.endswith(UPDATE)


def test_pairs_that_come_and_go_are_named() -> None:
    assert not faults(KEPT, KEPT)
    assert "not kept" in faults(KEPT, {})[0]
    assert "does not say any more" in faults({}, KEPT)[0]


CODE = "def f(a: int) -> int:\n    '''One.'''\n    return a + 1"


@pytest.mark.parametrize(
    ("code", "same"),
    [
        ("@mark\ndef f(a: int) -> int:\n    '''Another.'''\n\n    # why\n    return (a + 1)", True),
        ("def f(a: int) -> int:\n    return a + 2", False),
        ("def f(b: int) -> int:\n    return b + 1", False),
    ],
)
def test_words_and_layout_are_no_part_of_a_hash(code: str, same: bool) -> None:
    assert (hash_of(ast.parse(code)) == hash_of(ast.parse(CODE))) is same
