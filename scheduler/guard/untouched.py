"""A check that a user's policy has not changed the core's state.

A policy receives only read-only proxies, but Python code can access the objects behind them.
"""

from __future__ import annotations

from typing import Any

from schedbed.scheduler.core.core import Core
from schedbed.scheduler.policy import PolicyFailed


def check_untouched(core: Core, policy: Any, missing_jobs: int) -> None:
    """Raise PolicyFailed if a user's policy seems to have changed the state of `core`.

    This is the case if the state is inconsistent, or if `missing_jobs`, the number of ended jobs without a
    row in the jobs table, is not 0. Shipped policies are not checked.
    """
    line_of = getattr(policy, "line_of", None)
    if line_of is None:
        return
    try:
        core.check_tables()
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}".removesuffix(": ")
    else:
        wrong = f"{missing_jobs} jobs are missing" if missing_jobs else ""
    if wrong:
        text = f"the core's books are wrong ({wrong}), as if the policy had changed them past its view"
        raise PolicyFailed(f"{text} ({line_of('decide')})")
