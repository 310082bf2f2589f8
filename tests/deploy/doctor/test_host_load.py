"""Tests whether the host had CPU time to spare, according to the kernel's counters of its cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.deploy.doctor.host_load import TICK_S, HostClock


def clock(folder: Path, **seconds: float) -> HostClock:
    names = ("user", "nice", "system", "idle", "wait", "irq", "soft", "steal", "guest", "guest_nice")
    ticks = " ".join(str(round(seconds.get(name, 0.0) / TICK_S)) for name in names)
    (folder / "stat").write_text(f"cpu  {ticks}\ncpu0 1 2 3\n")
    return HostClock.read(folder / "stat")


@pytest.mark.parametrize(
    ("passed", "busy"),
    [
        ({"user": 10.0, "idle": 10.0}, ""),
        ({"user": 15.0, "wait": 5.0}, ""),
        ({"user": 19.0, "idle": 1.0}, "its cores were idle for 5% of the time, stolen for 0%"),
        ({"user": 10.0, "idle": 9.0, "steal": 1.0}, "its cores were idle for 45% of the time, stolen for 5%"),
        ({"user": 0.1}, ""),
    ],
)
def test_a_host_without_time_to_spare_says_so(tmp_path: Path, passed: dict[str, float], busy: str) -> None:
    assert clock(tmp_path).busy_until(clock(tmp_path, **passed)) == busy
