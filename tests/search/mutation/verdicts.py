"""The table of mutants with their results: killed, survived or never reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.search.mutation.mutant import Mutant
from tests.search.mutation.trial import Verdict

WANTED = 0.9


def print_verdicts(verdicts: Sequence[tuple[Mutant, Verdict]]) -> int:
    """Print the surviving mutants, the number of kills by check, and the counts by module.

    Return the exit code: 0 if the share of killed mutants is at least `WANTED` and every mutant was executed,
    else 1.
    """
    survivors = [(mutant, verdict) for mutant, verdict in verdicts if not verdict.killed_by]
    for title, reached in (("survived", True), ("never reached", False)):
        print(f"\n{title}")
        for mutant, verdict in sorted(survivors, key=lambda pair: (pair[0].module, pair[0].edit.line)):
            if bool(verdict.hits) is reached:
                print(f"  {mutant.name}: {mutant.change} ({verdict.hits} hits)")
    print("\nkilled by")
    for check, count in Counter(v.killed_by for _, v in verdicts if v.killed_by).most_common():
        print(f"{count:6d} {check}")
    print(f"\n{'module':44s}{'mutants':>8s}{'killed':>8s}{'survived':>9s}{'unreached':>10s}{'share':>7s}")
    for module in dict.fromkeys(sorted(mutant.module for mutant, _ in verdicts)):
        _row(module.removeprefix("schedbed."), [v for m, v in verdicts if m.module == module])
    share, unreached = _row("all", [verdict for _, verdict in verdicts])
    return 0 if share >= WANTED and not unreached else 1


def _row(name: str, verdicts: Sequence[Verdict]) -> tuple[float, int]:
    killed = sum(bool(verdict.killed_by) for verdict in verdicts)
    unreached = sum(not verdict.killed_by and not verdict.hits for verdict in verdicts)
    survived = len(verdicts) - killed - unreached
    share = killed / max(1, len(verdicts))
    print(f"{name:44s}{len(verdicts):8d}{killed:8d}{survived:9d}{unreached:10d}{share:7.1%}")
    return share, unreached
