"""Measures the fault finder: python -m tests.search.mutate [--minutes 10] [--seed N] [--only GLOB] [--jobs N]

Makes small mistakes (mutants) in the functions of the core, the tracker, the driver, the block store's
management and the policies, one at a time. Test scenarios (stories) that execute the changed line are run
until a check fails. A first pass over all scenarios counts the executions of each line. The seed draws the
order of the mutants. The command prints a table by module, the surviving mutants with their number of
executions, and the share of killed mutants.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from fnmatch import fnmatch

from schedbed.tasks.chance import chance
from tests.search.mutation.mutant import Mutant, all_mutants
from tests.search.mutation.trial import Judge, Verdict
from tests.search.mutation.verdicts import print_verdicts


def main() -> int:
    """Run the command; return the exit code.

    0 if at least 90% of the judged mutants were killed and every mutant was reached, else 1.
    """
    options = _options()
    begin_s = time.monotonic()
    mutants = [mutant for mutant in all_mutants() if fnmatch(mutant.name, f"*{options.only}*")]
    chance(options.seed, "mutants").shuffle(mutants)
    print(f"seed {options.seed}, {len(mutants)} mutants", flush=True)
    judge = Judge(options.seed, options.stories, jobs=options.jobs, tries=options.tries)
    judge.survey()
    print(f"{options.stories} stories surveyed after {time.monotonic() - begin_s:.0f} s", flush=True)
    verdicts: list[tuple[Mutant, Verdict]] = []
    for mutant, verdict in judge.verdicts(mutants, until_s=begin_s + 60 * options.minutes):
        verdicts.append((mutant, verdict))
        if options.verbose or not verdict.killed_by:
            print(f"{mutant.name}: {mutant.change}: {verdict}", flush=True)
    return print_verdicts(verdicts)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to go on (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="draws the mutants' order (default 1)")
    parser.add_argument(
        "--only", default="", help="mutants whose module:function:line matches, * for anything"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)"
    )
    parser.add_argument("--stories", type=int, default=240, help="stories that are tried (default 240)")
    parser.add_argument(
        "--tries",
        type=int,
        default=20,
        help="stories for each mutant at most (default 20), beside parts alone",
    )
    parser.add_argument("--verbose", action="store_true", help="print also who killed which mutant")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
