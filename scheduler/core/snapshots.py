"""Snapshots: the state of a JobTracker as bytes, and back.

The core's objects refer to each other in circles, deeper than pickle can follow. Each object is written empty where
pickle meets the object first; its attributes follow later, one object at a time. Snapshots are read from the run's
private folder only, as the journal beside them: pickle must not read what others sent.
"""

from __future__ import annotations

import copyreg
import gc
import pickle
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from operator import attrgetter
from typing import Any

from schedbed.scheduler.core.entities import Attempt, Feed, Job, Node, Stage, Tally, Task

LINKED: tuple[type[Any], ...] = (Attempt, Feed, Job, Node, Stage, Tally, Task)
"""The classes whose objects are written empty first."""
_READ = {each: attrgetter(*each.__slots__) for each in LINKED}
_WRITE = {each: [vars(each)[slot].__set__ for slot in each.__slots__] for each in LINKED}
UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, RecursionError)
"""What `freeze` raises when something cannot be pickled."""


class Unkept(Exception):
    """The state of the policy cannot be put into a snapshot: one line that says why."""


def freeze(state: Any) -> bytes:
    """Return the state, with all that it refers to, as bytes. Raises one of `UNPICKLABLE`."""
    file = BytesIO()
    pickler = pickle.Pickler(file, protocol=5)
    waiting: list[Any] = []

    def empty(linked: Any) -> tuple[Any, ...]:
        waiting.append(linked)
        return copyreg.__newobj__, (type(linked),)  # type: ignore[attr-defined]

    pickler.dispatch_table = {**copyreg.dispatch_table, **dict.fromkeys(LINKED, empty)}
    with _no_collection():
        pickler.dump(state)
        while waiting:
            batch, waiting[:] = list(waiting), []
            pickler.dump([(linked, _READ[type(linked)](linked)) for linked in batch])
        pickler.dump(None)
    return file.getvalue()


def thaw(data: bytes) -> Any:
    """Return the state that `freeze` has written."""
    unpickler = pickle.Unpickler(BytesIO(data))
    with _no_collection():
        state = unpickler.load()
        while batch := unpickler.load():
            for linked, values in batch:
                for write, each in zip(_WRITE[type(linked)], values, strict=True):
                    write(linked, each)
    return state


@contextmanager
def _no_collection() -> Generator[None]:
    """Keep the garbage collector from looking through a million objects again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
