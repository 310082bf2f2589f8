"""Limits on number and waiting time of peers without the token. Tokens are compared in constant time."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Hashable

PATIENCE_S = 5.0
"""Seconds that a peer may take from its connection until it has sent the token."""
PLACES = 512
"""Maximum number of connected peers without a token: several times a listening socket's backlog."""
TICKS = 5
"""Number of timers into which the waiting time is divided: a stopped process loses only one of them."""


class UnauthenticatedPeers:
    """Peers that have not sent `token`. Each is disconnected after `patience_s` seconds.

    Above `places` peers, the longest waiting goes, so that silent ones cannot keep others out.
    """

    def __init__(self, token: str, *, patience_s: float = PATIENCE_S, places: int = PLACES) -> None:
        self._token = token.encode()
        self._tick_s = patience_s / TICKS
        self._places = places
        self._waiting: dict[Hashable, tuple[Callable[[], object], asyncio.TimerHandle]] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._waiting)

    def is_token(self, given: str | bytes) -> bool:
        """Return whether `given` is the token, which is never empty."""
        shown = given.encode(errors="surrogatepass") if isinstance(given, str) else given
        return bool(self._token) and hmac.compare_digest(shown, self._token)

    def add(self, peer: Hashable, drop: Callable[[], object]) -> None:
        """Add a peer, which `drop` disconnects if it is late or too many wait."""
        self._wait(peer, drop, TICKS)
        if len(self._waiting) > self._places:
            self._drop(next(iter(self._waiting)))

    def discard(self, peer: Hashable) -> None:
        """Remove a peer that has sent the token or has disconnected."""
        _, timer = self._waiting.pop(peer, (None, None))
        if timer is not None:
            timer.cancel()

    def drop_all(self) -> None:
        for peer in list(self._waiting):
            self._drop(peer)

    def _wait(self, peer: Hashable, drop: Callable[[], object], ticks: int) -> None:
        loop = asyncio.get_running_loop()
        self._waiting[peer] = drop, loop.call_later(self._tick_s, self._tick, peer, ticks - 1)

    def _tick(self, peer: Hashable, left: int) -> None:
        drop, _ = self._waiting[peer]
        if left:
            self._wait(peer, drop, left)
        else:
            self._drop(peer)

    def _drop(self, peer: Hashable) -> None:
        drop, timer = self._waiting.pop(peer)
        timer.cancel()
        drop()
