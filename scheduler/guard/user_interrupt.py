"""Whether a KeyboardInterrupt comes from the keyboard or from a policy's own `raise`."""

from __future__ import annotations

import dis

RAISES = dis.opmap["RAISE_VARARGS"]


def is_raised(error: BaseException) -> bool:
    """Tell whether a statement has raised the error; an interrupt comes up between any two instructions."""
    traceback = error.__traceback__
    if traceback is None:
        return True
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] == RAISES
