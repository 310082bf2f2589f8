"""Columns of texts stored as integer codes, so that computations over many tasks compare numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Coded:
    """A sorted column of texts as integer codes: the text of row i is `names[codes[i]]`. A name may have no row."""

    codes: np.ndarray
    names: np.ndarray

    @staticmethod
    def of(values: Any) -> Coded:
        """Convert each value to text by `str`."""
        return Coded.mapped(values, None)

    @staticmethod
    def mapped(values: Any, to: Mapping[Any, Any] | None, missing: str = "?") -> Coded:
        """Look up each value in `to`, with `missing` for others, as a column of texts."""
        import pandas as pd

        if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
            column = pd.Categorical(values)
            codes, names = column.codes, column.categories.to_numpy(object)
            if (codes < 0).any():
                codes, names = np.where(codes < 0, len(names), codes), np.append(names, np.nan)
            return Coded(codes, names).renamed(to, missing)
        codes, different = pd.factorize(np.asarray(values, object), use_na_sentinel=False)
        return Coded(codes, different).renamed(to, missing)

    def renamed(self, to: Mapping[Any, Any] | None, missing: str = "?") -> Coded:
        """Replace each name by that in `to`, or by `missing`; without `to`, only convert to text."""
        texts = [str(name if to is None else to.get(name, missing)) for name in self.names]
        names, place = np.unique(np.array(texts, str), return_inverse=True)
        return Coded(place[self.codes] if len(self.codes) else np.zeros(0, np.intp), names)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Coded:
        return Coded(self.codes[rows], self.names)

    def is_name(self, name: str) -> np.ndarray:
        """Return a boolean array that is true for the rows with the text `name`."""
        place = int(np.searchsorted(self.names, name)) if len(self.names) else 0
        if place < len(self.names) and self.names[place] == name:
            return self.codes == place
        return np.zeros(len(self.codes), bool)

    def rows(self) -> dict[str, np.ndarray]:
        """Return a dictionary from each text to the sorted indexes of its rows. Texts without rows are left out."""
        order = np.argsort(self.codes, kind="stable")
        counts = np.bincount(self.codes, minlength=len(self.names))
        places = np.split(order, np.cumsum(counts)[:-1]) if len(counts) else []
        return {str(self.names[code]): places[code] for code in np.flatnonzero(counts)}


def order_by(codes: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the indexes that sort rows stably by code, then time: much faster if already in order of time."""
    if not (times[1:] >= times[:-1]).all():
        return np.lexsort((times, codes))
    is_small = len(codes) > 0 and codes.min() >= 0 and codes.max() < 1 << 16
    return np.argsort(codes.astype(np.uint16) if is_small else codes, kind="stable")


def filled(texts: pd.Series) -> pd.Series:
    """Replace missing texts by an empty text. The column may be categorical."""
    return texts.astype(object).fillna("") if texts.isna().any() else texts


def places_of(keys: Any, values: Any) -> np.ndarray:
    """Return the position of each value among the unique keys, or -1."""
    import pandas as pd

    is_coded = isinstance(getattr(values, "dtype", None), pd.CategoricalDtype)
    codes, different = pd.factorize(values if is_coded else np.asarray(values, object), use_na_sentinel=False)
    different = np.asarray(different, object)
    if not len(codes):
        return np.zeros(0, np.intp)
    return pd.Index(np.asarray(keys, object)).get_indexer(pd.Index(different))[codes]
