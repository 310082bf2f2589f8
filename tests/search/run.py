"""The fault finder: python tests/search/run.py [--seconds 600] [--seed N] [--policy NAME] [--story FILE]

Generates test scenarios (stories) from consecutive seeds and simulates them, until the time is up or a check
fails. The seed is printed first. A scenario that fails is simplified and written to a file, which --story
runs again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.search.generate import make_story
from tests.search.policies import policy_names
from tests.search.search import examine
from tests.search.shrink import shrink
from tests.search.story import Story, read_story, to_yaml
from tests.search.violation import Violation


def main() -> int:
    """Run the command; return 0 if all checks passed, 1 if one failed."""
    options = _options()
    if options.story is not None:
        return _run_again(options.story)
    first = options.seed if options.seed is not None else time.time_ns() % 10**9
    print(f"seed {first}", flush=True)
    begin_s = time.monotonic()
    seed, told = first, begin_s
    while time.monotonic() - begin_s < options.seconds:
        story = make_story(seed, options.policy)
        violation = examine(story)
        if violation is not None:
            _tell(story, violation, options.out)
            return 1
        seed += 1
        if time.monotonic() - told > 30:
            told = time.monotonic()
            print(f"{seed - first} stories, the last of seed {seed - 1}", flush=True)
    print(f"all checks held in {seed - first} stories, seeds {first} to {seed - 1}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to search (default 600)")
    parser.add_argument("--seed", type=int, help="the first seed (default: from the clock)")
    parser.add_argument(
        "--policy", metavar="NAME", action="append", choices=policy_names(), help="only this one; repeatable"
    )
    parser.add_argument("--story", type=Path, help="play this file only")
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the story that fails")
    return parser.parse_args()


def _run_again(path: Path) -> int:
    story = read_story(path)
    print(f"seed {story.seed}")
    violation = examine(story)
    print("all checks held" if violation is None else violation)
    return 0 if violation is None else 1


def _tell(story: Story, violation: Violation, folder: Path) -> None:
    print(f"seed {story.seed} fails: {violation}\nshrinking ...", flush=True)
    small = shrink(story, lambda other: _fails_alike(other, violation))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"story_{story.seed}.yaml"
    path.write_text(f"# {violation.check}\n{to_yaml(small)}")
    print(f"seed {story.seed}, shrunk: {examine(small)}\npython tests/search/run.py --story {path}")


def _fails_alike(story: Story, violation: Violation) -> bool:
    other = examine(story)
    return other is not None and other.check == violation.check


if __name__ == "__main__":
    sys.exit(main())
