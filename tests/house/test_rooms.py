"""The structure of the production code holds: no crowded folder, no circle of imports, one name for one
thing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import structure


def test_no_folder_is_crowded() -> None:
    assert structure.crowded_folders() == {}


def test_no_three_siblings_share_a_prefix() -> None:
    assert structure.shared_prefixes() == {}


def test_no_files_import_each_other_in_a_circle() -> None:
    assert structure.circles() == []


def test_a_module_name_stands_for_one_thing() -> None:
    assert structure.repeated_modules() == {}


def test_a_class_name_stands_for_one_thing() -> None:
    assert structure.repeated_classes() == {}


def test_no_module_shadows_a_public_name() -> None:
    import schedbed

    beside = {path.stem for path in (structure.ROOT / "src" / "schedbed").iterdir()}
    assert beside & set(schedbed.__all__) == {"policy"}, "the one public name that is a module"


def test_the_report_counts_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree with one fault of each kind is reported with each of them."""
    crowd = tmp_path / "tasks" / "crowd"
    crowd.mkdir(parents=True)
    for number in range(21):
        (crowd / f"m{number}.py").write_text("")
    for name in ("cell_a", "cell_b", "cell_c"):
        (tmp_path / "tasks" / f"{name}.py").write_text("class Twice:\n    pass\n")
    (tmp_path / "tasks" / "m0.py").write_text("from schedbed.tasks import m99\n")
    (tmp_path / "tasks" / "m99.py").write_text(
        "def f():\n    from schedbed.tasks.m0 import x\n    return x\n"
    )
    monkeypatch.setattr(structure, "ROOT", tmp_path)
    structure.modules.cache_clear()
    try:
        assert structure.crowded_folders() == {"tasks/crowd": 21}
        assert list(structure.shared_prefixes()) == ["tasks/cell"]
        assert list(structure.repeated_modules()) == ["m0"]
        assert list(structure.repeated_classes()) == ["Twice"]
        assert structure.circles() == [["tasks/m0.py", "tasks/m99.py"]]
        assert "tasks/crowd" in structure.report()
    finally:
        structure.modules.cache_clear()
