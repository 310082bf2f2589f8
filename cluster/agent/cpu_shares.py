"""The division of a node's CPU among attempts: a core each if there are enough cores, or else equal shares.

Each attempt has a CPU quota of its own. A common quota of the node would not be divided equally: the kernel
hands out a quota in slices of 5 ms, and one CPU of the host can receive all of a small quota in a period. For
example, three attempts with a common quota of 0.2 host cores received 0.063, 0.065 and 0.028 cores.

An attempt that waits keeps a small quota to wake up with, and the other attempts receive the unused part of
its share. If the attempts use more than the node's rate, the excess is a debt. The quotas are then reduced
until the debt is paid back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

HUNGRY = 0.9  # An attempt that uses this fraction of its share could use more.
ROOM = 1.5  # Other attempts get their use times this factor, so that their use can grow.
LEAST = 0.5  # Every attempt keeps this fraction of an even share.
LOOK_S = 0.2  # Shorter measurements are too noisy, since a quota's period is at least 20 ms.
FIRST_LOOK_S = 0.06
"""The same after an attempt has begun, since it took CPU from the others and may not use that."""
HORIZON_S = 1.0  # Seconds in which a node pays back its use above its rate.
PAYBACK = 0.3  # Maximum fraction of the rate that pays back debt; attempts that wake together add no more.
CHANGE = 0.02  # Smaller relative changes are not written, since each write refills the quota at once.

Used = Mapping[str, float | None]
"""CPU time of each attempt so far, in core-seconds of the host; None if it is not counted."""


@dataclass(slots=True)
class _Held:
    """The CPU share of one attempt in host cores, and the measurements of its CPU use."""

    share: float
    since_s: float  # time of the last measurement
    seen_s: float | None  # CPU time used until the last measurement
    counted_s: float | None  # CPU time that the node's debt already contains
    rate: float | None = None  # measured use in host cores, None before the second measurement
    look_s: float = FIRST_LOOK_S  # minimum time until the next measurement

    def look(self, now_s: float, used_s: float | None) -> float:
        """Update the measured CPU use at time `now_s`. Return the CPU seconds used since the last call.

        `used_s` is the attempt's total CPU time so far. If it is None, the result is 0.
        """
        new_s = 0.0 if used_s is None or self.counted_s is None else used_s - self.counted_s
        self.counted_s = used_s
        elapsed_s = now_s - self.since_s
        if elapsed_s >= self.look_s:
            self.rate = None
            if used_s is not None and self.seen_s is not None:
                self.rate = (used_s - self.seen_s) / elapsed_s
            self.since_s, self.seen_s, self.look_s = now_s, used_s, LOOK_S
        return new_s


class CpuShares:
    """The CPU shares of the running attempts of one node, in host cores.

    Methods that change shares return a dictionary from attempt to new share, the smallest share first. The
    argument `used` maps each running attempt to its CPU seconds so far. `now_s` is the current time.
    """

    def __init__(self, cores: int, core_speed: float) -> None:
        self._cores = cores
        self._core_speed = core_speed
        self._factor = 1.0
        self._held: dict[str, _Held] = {}
        self._debt_s = 0.0
        self._looked_s = 0.0

    @property
    def held(self) -> tuple[str, ...]:
        """Return the names of the attempts that have a share."""
        return tuple(self._held)

    @property
    def crowded(self) -> bool:
        """Return whether there are more running attempts than cores."""
        return len(self._held) > self._cores

    def begin(self, name: str, now_s: float, used: Used) -> dict[str, float]:
        """Add the attempt `name`, which begins to run at time `now_s`, and divide the node's CPU again.

        `used` maps each running attempt to its CPU seconds so far. Return the changed shares, a dictionary
        from attempt to host cores.
        """
        self._look(now_s, used)
        used_s = used.get(name)
        self._held[name] = _Held(0.0, now_s, used_s, used_s)
        return self._share([name])

    def forgive(self, name: str, cpu_s: float) -> None:
        """Exclude `cpu_s` CPU seconds, which are not limited, from the measured use of attempt `name`."""
        if (held := self._held.get(name)) and held.counted_s is not None and held.seen_s is not None:
            held.counted_s += cpu_s
            held.seen_s += cpu_s

    def end(self, name: str, now_s: float, used: Used) -> dict[str, float]:
        """Remove the attempt `name`, which ended at time `now_s`, and divide the node's CPU again.

        `used` maps each running attempt to its CPU seconds so far. Return the changed shares, a dictionary
        from attempt to host cores.
        """
        self._look(now_s, used)
        self._held.pop(name, None)
        return self._share()

    def set_factor(self, factor: float) -> dict[str, float]:
        """Set the node's CPU rate to `factor` times the declared rate. Return the shares of all attempts."""
        self._factor = factor
        return self._share(self._held)

    def rebalance(self, now_s: float, used: Used) -> dict[str, float]:
        """Measure the CPU use of all attempts at time `now_s`, and adapt their shares to it.

        `used` maps each running attempt to its CPU seconds so far. Return the changed shares, a dictionary
        from attempt to host cores.
        """
        self._look(now_s, used)
        return self._share()

    @property
    def _core(self) -> float:
        return self._core_speed * self._factor

    @property
    def _rate(self) -> float:
        return self._core * self._cores

    def _look(self, now_s: float, used: Used) -> None:
        new_s = sum([held.look(now_s, used.get(name)) for name, held in self._held.items()])
        self._debt_s = max(0.0, self._debt_s + new_s - self._rate * (now_s - self._looked_s))
        self._looked_s = now_s

    def _share(self, must: Collection[str] = ()) -> dict[str, float]:
        """Compute the shares of all attempts.

        Return a dictionary from attempt to share, for shares that have changed. The attempts in `must` are
        included even if their shares have not changed.
        """
        wanted = self._even() if self.crowded else dict.fromkeys(self._held, self._core)
        changed: dict[str, float] = {}
        for name, share in wanted.items():
            held = self._held[name]
            if name in must or abs(share - held.share) > CHANGE * held.share:
                held.share = changed[name] = share
        return dict(sorted(changed.items(), key=lambda item: item[1]))

    def _even(self) -> dict[str, float]:
        """Return max-min fair shares in host cores, as a dictionary from attempt to share.

        An attempt's demand is its measured use, or a whole core if it has used almost all of its share. An
        attempt that demands less than an equal share receives slightly more than its demand, so that its use
        can grow. The other attempts divide the remaining CPU equally.
        """
        left = self._rate - min(self._debt_s / HORIZON_S, PAYBACK * self._rate)
        even = left / len(self._held)
        demand = {name: self._demand(held) for name, held in self._held.items()}
        shares: dict[str, float] = {}
        for count, name in enumerate(sorted(demand, key=lambda name: demand[name])):
            shares[name] = min(demand[name], left / (len(demand) - count))
            left -= shares[name]
        return {
            name: share if share < demand[name] else min(self._core, max(share * ROOM, LEAST * even))
            for name, share in shares.items()
        }

    def _demand(self, held: _Held) -> float:
        if held.rate is None or held.rate >= HUNGRY * held.share:
            return self._core
        return min(self._core, held.rate)
