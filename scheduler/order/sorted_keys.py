"""A list that stays sorted while the keys of single items change, so that orders do not have to sort at each offer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class SortedKeys(Generic[H]):
    """A collection of items sorted by key, smallest first.

    Keys are tuples that end in a unique value, so that no two keys are equal.
    """

    __slots__ = ("_items", "_key_by_item", "_keys")

    def __init__(self) -> None:
        self._keys: list[tuple[Any, ...]] = []
        self._items: list[H] = []  # in the order of their keys
        self._key_by_item: dict[H, tuple[Any, ...]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[H]:
        return iter(self._items)

    def first(self) -> H:
        """Return the item with the smallest key. Raises IndexError."""
        return self._items[0]

    def __contains__(self, item: H) -> bool:
        return item in self._key_by_item

    def put(self, item: H, key: tuple[Any, ...]) -> None:
        """Add the item with that key. If the item is already in the collection, change its key."""
        old = self._key_by_item.get(item)
        if old == key:
            return
        keys, items = self._keys, self._items
        if old is not None:
            place = bisect_left(keys, old)
            del keys[place], items[place]
        self._key_by_item[item] = key
        place = bisect_left(keys, key)
        keys.insert(place, key)
        items.insert(place, item)

    def drop(self, item: H) -> None:
        """Remove the item. Do nothing if the item is not in the collection."""
        old = self._key_by_item.pop(item, None)
        if old is not None:
            place = bisect_left(self._keys, old)
            del self._keys[place], self._items[place]
