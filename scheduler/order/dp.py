"""The order axis DP (Dynamic Priority): users bid for slots and pay from a budget at the end of each
allocation interval.

Source: the thesis xu2015, section 3.1.3.2, after Sandholm and Lai 2010. In an interval a user is entitled to
slots of each kind in proportion to the bid: slots x bid / (sum of the bids of all users with jobs). Slots
that a user does not need are divided among the other users by their bids. At the end of the interval the user
pays bid x slots held / slots entitled to; additional slots cost nothing. Then all users bid again, at most
their remaining budget. Attempts of users above their share are killed for users below their share, the most
recent attempt first.

Decisions where the thesis has no rule: a user's bid is the same in each interval until it is changed (`change`);
a user who arrives during
an interval bids immediately; users without any budget left receive only slots that no other user wants; a
user's jobs are sorted as in the pools of Fair; the next slot is offered to the user with the smallest (held +
1) / bid, so that a small bid does not buy the first slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedbed.scheduler.hooks import QUIET, Kill, drop
from schedbed.scheduler.order.pools import Pool, PoolOrder, PoolSettings
from schedbed.scheduler.order.preemption import Claim, fair_shares, frees_slots, slots_of, take_back
from schedbed.scheduler.policy import Admission, Locality
from schedbed.scheduler.registry.declarations import Axis
from schedbed.scheduler.registry.parameters import by_name, duration, number, positive, switch
from schedbed.scheduler.view import JobView, NodeView, View
from schedbed.tasks.specs import TaskKind

_NOTHING = 1e-12  # The weight of a user without budget; it must be above 0.
_SLACK = 1e-9  # shares are sums of fractions


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user's settings in the order axis DP: the initial budget, and the bid per interval while the budget
    lasts.

    A setting of None selects the policy's default.
    """

    budget: float | None = None
    bid: float | None = None


def _given(value: float | None, default: Any) -> Any:
    return default if value is None else value


class Bidder(Pool):
    """The pool of one user's jobs, with the user's budget and bids.

    `left`: remaining budget. `most`: the bid set for the user. `bid`: the bid in the current interval, at
    most `left`; it is also the pool's weight.
    """

    __slots__ = ("bid", "left", "most")

    def __init__(self, name: str, budget: float, most: float) -> None:
        self.left = budget
        self.most = most
        self.bid = min(most, budget)
        super().__init__(name, PoolSettings(weight=max(self.bid, _NOTHING)))

    def key(self, kind: TaskKind) -> tuple[int, float, float, str]:
        """Implement `Pool.key`: return a sort key; the user with the smallest (running tasks + 1) / bid comes first."""
        next_slot = (self.tallies[kind].running + 1) / self.settings.weight
        return (0, next_slot, self.jobs.first().submit_s, self.name)


ACCOUNTS = by_name(
    "accounts",
    "account",
    "budget and bid by user name, such as {ana: {budget: 60, bid: 3}}; other users have the default budget and bid",
    "{ana: {budget: 60, bid: 3}}",
    {"budget": positive, "bid": positive},
    Account,
)


class DynamicPriority(PoolOrder):
    """The order axis of a composed policy: users buy shares of the slots with bids.

    `accounts`: a dictionary from user to budget and bid. `budget`, `bid`: values for all other users, as
    amounts of money in any unit. `interval_s`: seconds of an allocation interval. `preempt`: kill attempts of
    users above their share.
    """

    quiet = QUIET

    def __init__(
        self,
        *,
        accounts: Mapping[str, Account] | None = None,
        budget: float = 100.0,
        bid: float = 1.0,
        interval_s: float = 20.0,
        preempt: bool = True,
    ) -> None:
        super().__init__()
        self._accounts = dict(accounts or {})
        self._budget, self._bid = budget, bid
        self._interval_s = interval_s
        self._ends_s: float | None = None  # The end of the current interval; None before the first job.
        self._new_interval = False
        if not preempt:
            drop(self, "preempt")

    def new_pool(self, name: str) -> Bidder:
        """Implement `PoolOrder.new_pool`: return the pool of the user `name`, with the user's budget and bid."""
        account = self._accounts.get(name, Account())
        return Bidder(name, _given(account.budget, self._budget), _given(account.bid, self._bid))

    def submitted(self, view: View, job: JobView) -> None:
        """Implement `Hooks.submitted`. The run's first job starts the first allocation interval."""
        super().submitted(view, job)
        if self._ends_s is None:
            self._ends_s = view.now_s + self._interval_s

    def change(self, given: Mapping[str, Any]) -> bool:
        """Implement `Hooks.change`: bids count from the next interval on. A larger budget is granted at once."""
        if "accounts" not in given:
            return False
        for user, account in ACCOUNTS.read(given["accounts"]).items():
            known = self._accounts.get(user, Account())
            new = Account(budget=_given(account.budget, known.budget), bid=_given(account.bid, known.bid))
            bidder: Any = self.pools.get(user)
            if bidder is not None:
                granted = _given(new.budget, self._budget) - _given(known.budget, self._budget)
                bidder.left, bidder.most = max(0.0, bidder.left + granted), _given(new.bid, self._bid)
            self._accounts[user] = new
        return True

    # Bids and budgets

    def _bidders(self) -> list[Any]:
        """Return the pools with jobs, which alone bid and pay."""
        return [pool for pool in self.pools.values() if pool.jobs]

    def entitled(self, view: View, bidder: Bidder, kind: TaskKind) -> float:
        """Return the number of slots of that kind that the user's bid buys: all slots x bid / sum of all bids."""
        total = sum(other.bid for other in self._bidders())
        return view.slots(kind) * bidder.bid / total if total > 0 else 0.0

    def tick(self, view: View) -> None:
        """Implement `Hooks.tick`: at an interval's end, charge all users and set the next bids."""
        if self._ends_s is None or view.now_s < self._ends_s:
            return
        while self._ends_s <= view.now_s:
            self._ends_s += self._interval_s
        self._new_interval = True
        for bidder, price in [(each, self._price(view, each)) for each in self._bidders()]:
            bidder.left = max(0.0, bidder.left - price)
        for bidder in self._bidders():
            bidder.bid = min(bidder.most, bidder.left)
            self.resettle(bidder, replace(bidder.settings, weight=max(bidder.bid, _NOTHING)))

    def _price(self, view: View, bidder: Bidder) -> float:
        """Return bid x slots held / slots entitled to; slots beyond the number entitled to are free."""
        bought = {kind: self.entitled(view, bidder, kind) for kind in TaskKind}
        held = sum(min(slots_of(bidder, kind), bought[kind]) for kind in TaskKind)
        total = sum(bought.values())
        return bidder.bid * held / total if total > 0 else 0.0

    # Preemption

    def preempt(self, view: View) -> Sequence[Kill]:
        """Implement `Hooks.preempt`: when an allocation interval has ended, return the attempts to kill."""
        if not self._new_interval:
            return ()
        self._new_interval = False
        return [kill for kind in TaskKind for kill in self._kills(view, kind)]

    def _kills(self, view: View, kind: TaskKind) -> list[Kill]:
        """Return attempts of users above their share, one for each slot that a user below could use at once."""
        users = self._bidders()
        claims = []
        for user in users:
            claims.append(Claim(slots_of(user, kind) + user.startable(kind), user.settings.weight))
        shares = dict(zip((user.name for user in users), fair_shares(view.slots(kind), claims), strict=True))
        owed = []
        for user in users:
            due = int(shares[user.name] - slots_of(user, kind) + _SLACK)
            if due > 0:
                why = f"{user.name} holds {slots_of(user, kind)} of {shares[user.name]:.3g} slots that the bids give"
                owed.append((user.name, due, why))
        return [kill for _, kill in take_back(self.pools, kind, owed, shares)]

    # Reasons

    def note(self, view: View, node: NodeView, job: JobView, kind: TaskKind) -> str:
        """Return a note to append to the reason of a launch: the user's bid, slots and remaining budget."""
        bidder: Any = self.pools[job.user]
        if bidder.bid <= 0:
            return f"{job.user} has spent the budget: a slot that no bidder wants"
        total = sum(other.bid for other in self._bidders())
        bought, holds = self.entitled(view, bidder, kind), slots_of(bidder, kind)
        return (
            f"{job.user} bids {bidder.bid:.3g} of {total:.3g}, holds {holds} of {bought:.3g} slots, "
            f"budget {bidder.left:.4g}"
        )


def _check(order: DynamicPriority, locality: Locality, admission: Admission) -> None:
    # Without kills, shares grow and shrink as tasks end.
    if not frees_slots(admission):
        drop(order, "preempt")


AXIS = Axis(
    axis="order",
    name="dp",
    factory=DynamicPriority,
    summary="users bid for slots in each interval and pay from a budget; attempts of users above "
    "their share are killed",
    paper="xu2015 3.1.3.2; Sandholm and Lai 2010",
    parameters=(
        ACCOUNTS,
        number(
            "budget",
            "100",
            "",
            "total amount that a user without an entry in `accounts` may spend in a run",
            positive,
        ),
        number(
            "bid",
            "1",
            "",
            "amount that a user without an entry in `accounts` bids for slots in each interval",
            positive,
        ),
        duration(
            "interval", "20s", "length of an interval, after which users pay for their slots and bid again"
        ),
        number(
            "preempt",
            "true",
            "",
            "whether attempts of users above their share are killed; only possible with map and reduce slots",
            switch,
        ),
    ),
    check=_check,
    rank=40,
)
POLICY = AXIS.named(
    summary="Users bid for slots in each interval and pay from a budget; attempts of users above "
    "their share are killed.",
    rank=54,
)
