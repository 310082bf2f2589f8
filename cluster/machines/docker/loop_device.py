"""Loop devices: a new device for each image, bound to a file, and removed with the last process that has it open.

The kernel unbinds such a device by itself (`LO_FLAGS_AUTOCLEAR`), so that one whose maker was killed is soon free.
Devices are added and removed for this purpose: settings of a device (throttles, dirty limits) go with it, and devices
of other users are not touched.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from pathlib import Path

DEVICE = "schedbed.device"
"""The label of a volume with the name of the loop device below it."""
CONTROL = Path("/dev/loop-control")
# linux/loop.h
CONFIGURE = 0x4C0A
ADD = 0x4C80
REMOVE = 0x4C81
ANY = -1
AUTOCLEAR = 4
CONFIG = struct.Struct("=II 5Q4I64s64s32s2Q 8Q")
TRIES = 5  # another process may take a device that was just added


def attach(image: Path) -> tuple[str, int]:
    """Bind a new loop device to a file. Return its name, such as `loop8`, and a descriptor. Raises OSError.

    The device is unbound once this descriptor and each mount of the device are closed. The file's page cache stays in
    use: writes to the device proceed evenly even if the host's disk does not.
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
    """Remove an unbound loop device, waiting up to `patience_s` seconds for that. A device that stays in use is
    left."""
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
