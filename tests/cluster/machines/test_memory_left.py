"""The memory left below the limits of control groups, read from fake trees of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.cluster.machines.host_abilities import MEMORY_FILES, memory_left_bytes

MIB = 2**20


def group(folder: Path, version: int, limit: str, used_bytes: int, cache_bytes: int) -> None:
    most, used, cache = MEMORY_FILES[version]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / most).write_text(f"{limit}\n")
    (folder / used).write_text(f"{used_bytes}\n")
    (folder / "memory.stat").write_text(f"other 7\n{cache} {cache_bytes}\n")


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_limit_on_the_way_to_the_top_counts_and_cache_is_free(
    tmp_path: Path, version: int
) -> None:
    top = tmp_path / "groups"
    kind, options, name = ("cgroup", "rw,memory", "memory") if version == 1 else ("cgroup2", "rw", "")
    (tmp_path / "mountinfo").write_text(f"30 20 0:26 / {top} rw - {kind} none {options}\n")
    (tmp_path / "cgroup").write_text(f"4:{name}:/outer/inner\n")
    group(top / "outer" / "inner", version, "9223372036854771712" if version == 1 else "max", 5 * MIB, 0)
    group(top / "outer", version, str(16 * MIB), 9 * MIB, 4 * MIB)
    assert memory_left_bytes(tmp_path) == 11 * MIB
    group(top / "outer" / "inner", version, str(8 * MIB), 5 * MIB, 0)
    assert memory_left_bytes(tmp_path) == 3 * MIB


def test_without_control_groups_it_is_what_the_host_has(tmp_path: Path) -> None:
    assert memory_left_bytes(tmp_path) > 0
