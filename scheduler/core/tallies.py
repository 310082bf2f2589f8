"""The counters of the tasks of one user or one queue, which the core keeps up to date."""

from __future__ import annotations


class Tally:
    """The counters of running and unstarted tasks of one user or one queue, for maps or for reduces.

    Each counter is a sum over the user's or queue's jobs.
    """

    __slots__ = ("killing", "name", "running", "unstarted")

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = 0
        self.killing = 0  # The running attempts that were ordered to stop.
        self.unstarted = 0
