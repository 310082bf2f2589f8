"""Loop devices of the Linux kernel, which make an image file available as a block device, a new one each.

The kernel releases a device that nobody has open (`LO_FLAGS_AUTOCLEAR`), even after a kill. Removal also
removes its throttles and dirty limits. Devices of other users are not touched.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from pathlib import Path

DEVICE = "schedbed.device"
"""The label of a volume that has the name of its loop device."""
CONTROL = Path("/dev/loop-control")
# linux/loop.h
CONFIGURE = 0x4C0A
ADD = 0x4C80
REMOVE = 0x4C81
ANY = -1
AUTOCLEAR = 4
CONFIG = struct.Struct("=II 5Q4I64s64s32s2Q 8Q")
TRIES = 5  # Another process may bind a device that was just added.


def attach(image: Path) -> tuple[str, int]:
    """Bind a new loop device. Return its name, such as `loop8`, and a descriptor. Raises OSError.

    The kernel releases it when that is closed and it is not mounted. Writes go through the image's page
    cache, which smooths stalls of the host's disk.
    """
    for attempt in range(1, TRIES + 1):
        name = f"loop{_control(ADD, ANY)}"
        try:
            return name, _bind(Path("/dev") / name, image)
        except OSError as error:
            if attempt == TRIES or error.errno not in (errno.EBUSY, errno.ENXIO, errno.ENOENT):
                discard(name)
                raise
    raise AssertionError


def discard(name: str, patience_s: float = 0.0) -> None:
    """Remove a loop device. If the device is in use, retry for up to `patience_s` seconds, then give up."""
    give_up = time.monotonic() + patience_s
    while True:
        try:
            _control(REMOVE, int(name.removeprefix("loop")))
            return
        except (OSError, ValueError) as error:
            if getattr(error, "errno", None) != errno.EBUSY or time.monotonic() > give_up:
                return
        time.sleep(0.01)


def device_number(name: str) -> str:
    """Return a block device's `major:minor`. Raises OSError."""
    return (Path("/sys/block") / name / "dev").read_text().strip()


def _bind(device: Path, image: Path) -> int:
    opened = os.open(device, os.O_RDWR | os.O_CLOEXEC)
    try:
        with image.open("r+b") as file:
            label = os.fsencode(str(image))[-63:]
            info = (0, 0, 0, 0, 0, 0, 0, 0, AUTOCLEAR, label, b"", b"", 0, 0)
            fcntl.ioctl(opened, CONFIGURE, CONFIG.pack(file.fileno(), 0, *info, *(0,) * 8))
    except OSError:
        os.close(opened)
        raise
    return opened


def _control(request: int, number: int) -> int:
    control = os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        return fcntl.ioctl(control, request, number)
    finally:
        os.close(control)
