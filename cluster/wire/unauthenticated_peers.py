"""Limits on the number of peers that have connected but have not sent the token, and on their waiting time.

Tokens are compared in constant time.
"""

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
    """The connected peers of a server that have not sent `token` yet.

    A peer is disconnected after `patience_s` seconds. If more than `places` peers wait, the peer that has
    waited longest is disconnected, so that silent peers cannot keep other peers from connecting.
    """

    def __init__(self, token: str, *, patience_s: float = PATIENCE_S, places: int = PLACES) -> None:
        self._token = token.encode()
        self._tick_s = patience_s / TICKS
        self._places = places
        self._waiting: dict[Hashable, tuple[Callable[[], object], asyncio.TimerHandle]] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._waiting)

    def is_token(self, given: str | bytes) -> bool:
        """Return whether `given` is the token. An empty token is never valid."""
        shown = given.encode(errors="surrogatepass") if isinstance(given, str) else given
        return bool(self._token) and hmac.compare_digest(shown, self._token)

    def add(self, peer: Hashable, drop: Callable[[], object]) -> None:
        """Add a peer that has connected.

        `drop` is called to disconnect the peer if it does not send the token in time, or if too many peers
        wait.
        """
        self._wait(peer, drop, TICKS)
        if len(self._waiting) > self._places:
            self._drop(next(iter(self._waiting)))

    def discard(self, peer: Hashable) -> None:
        """Remove a peer that has sent the token or has disconnected."""
        _, timer = self._waiting.pop(peer, (None, None))
        if timer is not None:
            timer.cancel()

    def drop_all(self) -> None:
        """Disconnect all peers that have not sent the token."""
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
