"""Distinction between Ctrl-C on the keyboard and a KeyboardInterrupt raised by a policy."""

from __future__ import annotations

import dis

RAISES = dis.opmap["RAISE_VARARGS"]


def is_raised(error: BaseException) -> bool:
    """Return whether a `raise` statement raised the error.

    An interrupt from the keyboard can occur at any instruction. An error without a traceback counts as
    raised.
    """
    traceback = error.__traceback__
    if traceback is None:
        return True
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == RAISES
