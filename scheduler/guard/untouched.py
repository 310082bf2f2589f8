"""Whether a user's policy has left the core's books alone: it sees faces only, but Python lets it reach past them."""

from __future__ import annotations

from typing import Any

from schedbed.scheduler.core.core import Core
from schedbed.scheduler.policy import PolicyFailed


def check_untouched(core: Core, policy: Any, missing_jobs: int) -> None:
    """Raise PolicyFailed when the books do not balance, or jobs that were submitted have no row although all ended.

    Does nothing for policies that are shipped, whose books the tests check.
    """
    line_of = getattr(policy, "line_of", None)
    if line_of is None:
        return
    try:
        core.check_books()
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}".removesuffix(": ")
    else:
        wrong = f"{missing_jobs} jobs are missing" if missing_jobs else ""
    if wrong:
        text = f"the core's books are wrong ({wrong}), as if the policy had changed them past its view"
        raise PolicyFailed(f"{text} ({line_of('decide')})")
