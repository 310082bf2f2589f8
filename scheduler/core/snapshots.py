"""Snapshots: conversion of a JobTracker's state to bytes and back, with pickle.

Chains and cycles of objects exceed pickle's recursion limit, so each object is pickled without attributes
first, and the attributes follow one object at a time. Since unpickling others' files is unsafe, snapshots are
read only from the run's private folder with the journal.
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

from schedbed.scheduler.core.entities import Attempt, Feed, Job, Node, Stage, Task
from schedbed.scheduler.core.states import Tally

# Snapshots
#
# A snapshot must be exactly the state that the events before it lead to, or the replay of the later events goes
# another way, without an error. Two things make that hard. The state is one large graph with cycles: an attempt
# knows its task, which knows its job, which lists its attempts. And identity matters: the policy, the ledger and
# the queue of effects must share the same objects afterwards, as before. A format of our own would have to name
# each class and each reference, and would be wrong when a field is added. Pickle keeps identity without help, and
# a new field is in the snapshot without a word; so everything goes into one pickle, objects without attributes
# first. What cannot be pickled, such as an open generator of a user's policy, is found while the snapshot is
# written, when the events are still there.

LINKED: tuple[type[Any], ...] = (Attempt, Feed, Job, Node, Stage, Tally, Task)
"""The classes whose objects are first written without attributes."""
_READ = {each: attrgetter(*each.__slots__) for each in LINKED}
_WRITE = {each: [vars(each)[slot].__set__ for slot in each.__slots__] for each in LINKED}
UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, RecursionError)
"""The exceptions that `freeze` raises if an object cannot be pickled."""


class Unkept(Exception):
    """The error raised if a snapshot cannot contain the policy's state. The message is one line."""


def freeze(state: Any) -> bytes:
    """Return the state with all its objects as bytes. Raises one of `UNPICKLABLE`."""
    file = BytesIO()
    pickler = pickle.Pickler(file, protocol=5)
    waiting: list[Any] = []

    def empty(linked: Any) -> tuple[Any, ...]:
        waiting.append(linked)
        return copyreg.__newobj__, (type(linked),)  # type: ignore[attr-defined]

    pickler.dispatch_table = {**copyreg.dispatch_table, **dict.fromkeys(LINKED, empty)}
    with no_collections():
        pickler.dump(state)
        while waiting:
            batch, waiting[:] = list(waiting), []
            pickler.dump([(linked, _READ[type(linked)](linked)) for linked in batch])
        pickler.dump(None)
    return file.getvalue()


def thaw(data: bytes) -> Any:
    """Return the state that `freeze` converted to the bytes `data`."""
    unpickler = pickle.Unpickler(BytesIO(data))
    with no_collections():
        state = unpickler.load()
        while batch := unpickler.load():
            for linked, values in batch:
                for write, each in zip(_WRITE[type(linked)], values, strict=True):
                    write(linked, each)
    return state


@contextmanager
def no_collections() -> Generator[None]:
    """Turn off the garbage collector, which would search millions of objects for a fifth to a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
