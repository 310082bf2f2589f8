"""Why a command ends without success, beside bad input."""

from __future__ import annotations


class RunFailed(Exception):
    """The run itself failed (a job failed, a check did not hold, the cluster broke): one line, exit code 1."""
