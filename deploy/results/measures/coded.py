"""Columns of texts stored as integer codes, so that computations over a million tasks compare numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of texts stored as codes: the text of row i is `names[codes[i]]`.

    The names are sorted; some may occur in no row.
    """

    codes: np.ndarray
    names: np.ndarray

    @staticmethod
    def of(values: Any) -> Coded:
        """Return the column of the values, each converted by `str`."""
        return Coded.mapped(values, None)

    @staticmethod
    def mapped(values: Any, to: Mapping[Any, Any] | None, missing: str = "?") -> Coded:
        """Return the column of the values looked up in `to`, as texts; `missing` for a value that
        is not in `to`.
        """
        import pandas as pd

        codes, different = pd.factorize(np.asarray(values, object), use_na_sentinel=False)
        texts = [str(value if to is None else to.get(value, missing)) for value in different]
        names, place = np.unique(np.array(texts, str), return_inverse=True)
        return Coded(place[codes] if len(codes) else np.zeros(0, np.intp), names)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Coded:
        """Return the column with only the selected rows."""
        return Coded(self.codes[rows], self.names)

    def is_name(self, name: str) -> np.ndarray:
        """Return a mask of the rows with this text."""
        place = int(np.searchsorted(self.names, name)) if len(self.names) else 0
        if place < len(self.names) and self.names[place] == name:
            return self.codes == place
        return np.zeros(len(self.codes), bool)

    def rows(self) -> dict[str, np.ndarray]:
        """Return, by name, the indexes of the rows with this name, in ascending order.

        Names without rows are left out.
        """
        order = np.argsort(self.codes, kind="stable")
        counts = np.bincount(self.codes, minlength=len(self.names))
        places = np.split(order, np.cumsum(counts)[:-1]) if len(counts) else []
        return {str(self.names[code]): places[code] for code in np.flatnonzero(counts)}


def places_of(keys: Any, values: Any) -> np.ndarray:
    """Return, for each value, its position among the keys; -1 for a value that is not a key.

    Keys are unique.
    """
    import pandas as pd

    codes, different = pd.factorize(np.asarray(values, object), use_na_sentinel=False)
    if not len(codes):
        return np.zeros(0, np.intp)
    return pd.Index(np.asarray(keys, object)).get_indexer(pd.Index(different))[codes]
