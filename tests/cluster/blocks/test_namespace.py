"""The tree of files, which can be restored from the journal of its changes alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedbed.cluster.blocks.block_errors import BadPath, BlockStoreError, PathExists, PathNotFound, WrongKind
from schedbed.cluster.blocks.namespace import Change, Directory, File, Namespace, block_id, parts_of


def create(path: str) -> Change:
    return {"op": "create", "path": path, "replication": 2, "block_bytes": 10, "now_s": 1.0}


def allocate(names: Namespace, path: str) -> Change:
    block = block_id(names.next_block_number())
    return {"op": "allocate", "path": path, "block": block, "length": 0, "now_s": 2.0}


def rename(src: str, dst: str) -> Change:
    return {"op": "rename", "src": src, "dst": dst, "now_s": 3.0}


def delete(path: str, recursive: bool = False) -> Change:
    return {"op": "delete", "path": path, "recursive": recursive, "now_s": 4.0}


def make(names: Namespace, *changes: Change) -> dict[str, str]:
    released: dict[str, str] = {}
    for change in changes:
        names.check(change)
        released |= names.apply(change)
    return released


def with_file(path: str = "/out/j/_temporary/a", blocks: int = 2) -> Namespace:
    names = Namespace()
    make(names, create(path))
    for _ in range(blocks):
        make(names, allocate(names, path))
    lengths = [[block, 10] for block in names.file(path).blocks]
    make(names, {"op": "complete", "path": path, "blocks": lengths, "now_s": 2.5})
    return names


def dump(names: Namespace) -> list[Any]:
    rows: list[Any] = []
    for entry in names.entries():
        if isinstance(entry, File):
            rows.append((entry.path, entry.replication, entry.complete, dict(entry.blocks), entry.origin))
        else:
            rows.append((entry.path, entry.origin))
    return rows


@pytest.mark.parametrize("path", ["", "a", "a/b", "/a/../b", "/a/./b", "/a\0b"])
def test_a_path_that_is_not_absolute_and_plain_is_refused(path: str) -> None:
    with pytest.raises(BadPath):
        parts_of(path)


def test_doubled_and_final_slashes_do_not_count() -> None:
    assert parts_of("//in//books.txt/") == ("in", "books.txt")


def test_a_file_makes_its_directories() -> None:
    names = with_file("/out/j/part-00000")
    assert isinstance(names.get("/out/j"), Directory)
    assert names.file("/out/j/part-00000").length == 20


def test_nothing_can_be_put_below_a_file() -> None:
    names = with_file("/a")
    with pytest.raises(WrongKind):
        names.check(create("/a/b"))


def test_a_complete_file_takes_no_more_blocks() -> None:
    names = with_file("/a")
    with pytest.raises(PathExists):
        names.check(allocate(names, "/a"))


def test_blocks_that_a_finished_file_does_not_list_are_released() -> None:
    names = Namespace()
    make(names, create("/a"))
    make(names, allocate(names, "/a"), allocate(names, "/a"))
    first = block_id(1)
    make(names, allocate(names, "/a"))
    released = make(names, {"op": "complete", "path": "/a", "blocks": [[first, 7]], "now_s": 3.0})
    assert released == {block_id(2): "/a"}
    assert names.file("/a").blocks == {first: 7}


def test_a_file_cannot_be_finished_with_the_blocks_of_another() -> None:
    names = with_file("/a")
    make(names, create("/b"))
    with pytest.raises(PathNotFound):
        names.check({"op": "complete", "path": "/b", "blocks": [[block_id(1), 10]], "now_s": 3.0})


def test_a_commit_may_be_repeated() -> None:
    names = with_file("/out/j/_temporary/a")
    assert not names.was_renamed("/out/j/_temporary/a", "/out/j/part-00000")
    make(names, rename("/out/j/_temporary/a", "/out/j/part-00000"))
    assert names.was_renamed("/out/j/_temporary/a", "/out/j/part-00000")
    assert not names.was_renamed("/out/j/_temporary/b", "/out/j/part-00000")


def test_a_second_winner_is_refused() -> None:
    names = with_file("/out/j/_temporary/a")
    make(names, create("/out/j/_temporary/b"), rename("/out/j/_temporary/a", "/out/j/part-00000"))
    with pytest.raises(PathExists):
        names.check(rename("/out/j/_temporary/b", "/out/j/part-00000"))


def test_a_directory_moves_with_all_that_is_in_it() -> None:
    names = with_file("/a/b/c")
    make(names, rename("/a/b", "/x/y"))
    assert names.file("/x/y/c").path == "/x/y/c"
    assert names.find("/a/b") is None
    assert names.owners[block_id(1)].path == "/x/y/c"


@pytest.mark.parametrize("target", ["/a/b", "/a/b/c/d"])
def test_a_directory_cannot_move_into_itself(target: str) -> None:
    names = with_file("/a/b/f")
    with pytest.raises(BlockStoreError):
        names.check(rename("/a/b", target))


def test_a_rename_to_a_directory_goes_inside() -> None:
    names = with_file("/a")
    make(names, {"op": "mkdirs", "path": "/d", "now_s": 1.0})
    assert names.rename_target("/a", "/d") == "/d/a"


def test_deleting_a_tree_releases_all_its_blocks_and_ids_are_not_used_again() -> None:
    names = with_file("/a/b/c", blocks=3)
    with pytest.raises(WrongKind):
        names.check(delete("/a"))
    released = make(names, delete("/a", recursive=True))
    assert released == {block_id(i): "/a/b/c" for i in (1, 2, 3)}
    assert names.owners == {}
    assert names.next_block_number() == 4


PATHS = st.sampled_from(["/a", "/a/b", "/a/b/c", "/d", "/d/e", "/d/e/f"])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["create", "allocate", "complete", "rename", "delete", "mkdirs"]), PATHS, PATHS
        )
    )
)
def test_whatever_happens_each_block_has_one_file_and_replaying_gives_the_same(steps: list[Any]) -> None:
    names = Namespace()
    done: list[Change] = []
    released: list[str] = []
    for op, path, other in steps:
        file = names.find(path)
        blocks = [[block, 5] for block in file.blocks][:2] if isinstance(file, File) else []
        change = {
            "create": create(path),
            "allocate": allocate(names, path),
            "complete": {"op": "complete", "path": path, "blocks": blocks, "now_s": 5.0},
            "rename": rename(path, other),
            "delete": delete(path, recursive=True),
            "mkdirs": {"op": "mkdirs", "path": path, "now_s": 6.0},
        }[op]
        before = dump(names)
        try:
            names.check(change)
        except BlockStoreError:
            assert dump(names) == before
            continue
        released += names.apply(change)
        done.append(change)
    owned = [block for file in names.files() for block in file.blocks]
    assert sorted(owned) == sorted(names.owners)
    assert sorted(owned + released) == [block_id(i) for i in range(1, names.next_block_number())]
    again = Namespace()
    for change in done:
        again.apply(change)
    assert dump(again) == dump(names)
