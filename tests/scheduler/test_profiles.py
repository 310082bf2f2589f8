"""The profile store: a file of values with a kind and a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedbed.scheduler.profiles import ProfileStore, default_store
from schedbed.tasks.errors import BadInput


def test_values_are_kept_by_kind_and_name(tmp_path: Path):
    path = tmp_path / "deep" / "profiles.sqlite"
    assert ProfileStore(path).load("resources", "sort") is None and not path.exists()
    assert ProfileStore(path).save("resources", "sort", {"map": {"cpu": 30.0}})
    ProfileStore(path).save("resources", "grep", {"map": {"cpu": 10.0}})
    ProfileStore(path).save("demand", "sort", {"map": 47})
    assert ProfileStore(path).load("resources", "sort") == {"map": {"cpu": 30.0}}
    assert list(ProfileStore(path).load_all("resources")) == ["grep", "sort"]


def test_a_log_that_must_not_be_overwritten_stays_until_cleared(tmp_path: Path):
    """Section 2.2.3 of liu2015: with `overwrite=False` a new value is discarded while an old one exists."""
    store = ProfileStore(tmp_path / "p.sqlite")
    assert store.save("demand", "sort", {"map": 47}, overwrite=False)
    assert not store.save("demand", "sort", {"map": 99}, overwrite=False)
    assert store.load("demand", "sort") == {"map": 47}
    store.clear("demand", "sort")
    assert store.load("demand", "sort") is None
    assert store.save("demand", "sort", {"map": 99}, overwrite=False)
    store.save("demand", "sort", {"map": 50})
    assert store.load("demand", "sort") == {"map": 50}


def test_another_file_is_bad_input(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("this is no database, whatever its name says" * 50)
    with pytest.raises(BadInput, match=r"profile store .*notes\.txt"):
        ProfileStore(path).load_all("resources")


def test_where_the_users_store_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("SCHEDBED_PROFILES", str(tmp_path / "mine.sqlite"))
    assert default_store() == tmp_path / "mine.sqlite"
    monkeypatch.delenv("SCHEDBED_PROFILES")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_store() == tmp_path / "schedbed" / "profiles.sqlite"
