"""Calls of the same hook of several parts of a policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any


def together(hooks: Sequence[Callable[..., Any]], *, answers: bool) -> Callable[..., Any]:
    """Return a function that calls all the given functions in order, with the same arguments.

    If `answers` is true, each function must return a list, and the result is the concatenation of these
    lists.
    """
    if len(hooks) == 1:
        return hooks[0]
    return partial(_collect if answers else _call, tuple(hooks))


def _call(hooks: Sequence[Callable[..., Any]], *arguments: Any) -> None:
    for hook in hooks:
        hook(*arguments)


def _collect(hooks: Sequence[Callable[..., Any]], *arguments: Any) -> list[Any]:
    return [answer for hook in hooks for answer in hook(*arguments)]
