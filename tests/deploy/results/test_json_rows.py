"""Tests of JSON texts that are made column by column."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.deploy.results.measures.row_values import MISSING, object_texts, value_texts

NUMBERS = st.floats(allow_infinity=False) | st.none()
TEXTS = st.text() | st.none()


@given(st.lists(st.tuples(NUMBERS, TEXTS, st.integers(-(2**63), 2**63 - 1))))
def test_rows_are_what_each_row_would_be_alone(rows: list[tuple[Any, Any, int]]) -> None:
    numbers, texts, counts = ([row[place] for row in rows] for place in range(3))
    columns = {
        "number": pd.Series(numbers, dtype="float64"),
        'a "text"': pd.Series(texts, dtype="str"),
        "count": pd.Series(counts, dtype="int64"),
    }
    made = object_texts({name: value_texts(column) for name, column in columns.items()})
    for text, row in zip(made, rows, strict=True):
        kept = {
            name: value
            for name, value in zip(columns, row, strict=True)
            if value is not None and value == value
        }
        assert text == json.dumps(kept, separators=(",", ":"), ensure_ascii=False)


def test_texts_may_be_stored_as_codes() -> None:
    column = pd.Series(["b", None, "a", "b"]).astype("category")
    assert value_texts(column) == ['"b"', MISSING, '"a"', '"b"']


def test_whole_numbers_may_be_missing() -> None:
    assert value_texts(pd.Series([1, None, 3], dtype="Int64")) == ["1", MISSING, "3"]


def test_an_infinite_number_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        value_texts(pd.Series([1.0, float("inf")]))
