"""The tree of directories and files, with the blocks of each file but not their replicas.

`check` validates a change, a JSON value, and `apply` carries it out; applying all restores the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from schedbed.cluster.blocks.block_errors import (
    BadPath,
    IsDirectory,
    NotDirectory,
    NotEmpty,
    PathExists,
    PathNotFound,
    WrongKind,
)

Change = dict[str, Any]
"""`op` (a key of `Namespace._changes`), `now_s` and the operation's own arguments."""
Check = Callable[[Change], None]
Apply = Callable[[Change], dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """Attributes that clients set and read, without other effect. None means never set.

    `permission` is octal. `acl` is in HDFS's notation, without the entries of owner, group and others.
    """

    owner: str | None = None
    group: str | None = None
    permission: str | None = None
    accessed_s: float | None = None
    acl: tuple[str, ...] = ()


PLAIN = Attributes()


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """A file or directory in the tree. `origin` is its path before the last rename, if there was one."""

    name: str
    parent: Directory | None
    modified_s: float
    origin: str | None = None
    attributes: Attributes = PLAIN

    @property
    def path(self) -> str:
        """Return the absolute path of the file or directory."""
        names: list[str] = []
        entry: Entry = self
        while entry.parent is not None:
            names.append(entry.name)
            entry = entry.parent
        return "/" + "/".join(reversed(names))


@dataclass(slots=True, kw_only=True, eq=False)
class Directory(Entry):
    """A directory. `children` maps the names of its files and directories to their entries."""

    children: dict[str, Entry] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class File(Entry):
    """A file. `blocks` maps ids to bytes (0 while unknown), in the order of the content.

    `placement` and `skew` say how an input's blocks were distributed. `complete` is False while it is
    written.
    """

    replication: int
    block_bytes: int
    placement: str = "hdfs"
    skew: float | None = None
    is_input: bool = False
    complete: bool = False
    blocks: dict[str, int] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return sum(self.blocks.values())


@lru_cache(4096)
def parts_of(path: str) -> tuple[str, ...]:
    """Split an absolute path into names, ignoring repeated and trailing slashes. Raises BadPath."""
    names = tuple(name for name in path.split("/") if name)
    if not path.startswith("/") or any(name in (".", "..") or "\0" in name for name in names):
        raise BadPath(f"{path!r}: expected an absolute path without . or ..")
    return names


def clean(path: str) -> str:
    """Return an absolute path without repeated and trailing slashes. Raises BadPath."""
    return "/" + "/".join(parts_of(path))


def block_id(number: int) -> str:
    """Return the block's id, such as `blk_0000000001`."""
    return f"blk_{number:010d}"


def block_number(block: str) -> int:
    """Invert `block_id`."""
    return int(block.removeprefix("blk_"))


class Namespace:
    """The tree of all files and directories. `owners` maps each block to the file that contains it."""

    def __init__(self) -> None:
        self.root = Directory(name="", parent=None, modified_s=0.0)
        self.owners: dict[str, File] = {}
        self._last_block = 0
        self._closed: dict[str, None] = {}  # Paths at and below which nothing can be created.
        self._changes: Mapping[str, tuple[Check, Apply]] = {
            "create": (self._check_create, self._apply_create),
            "reopen": (self._check_reopen, self._apply_reopen),
            "allocate": (self._check_allocate, self._apply_allocate),
            "complete": (self._check_complete, self._apply_complete),
            "mkdirs": (self._check_mkdirs, self._apply_mkdirs),
            "rename": (self._check_rename, self._apply_rename),
            "delete": (self._check_delete, self._apply_delete),
            "concat": (self._check_concat, self._apply_concat),
            "set_attributes": (self._check_there, self._apply_set_attributes),
            "set_replication": (self._check_is_file, self._apply_set_replication),
        }

    # -- questions -------------------------------------------------------------------------------------------

    def find(self, path: str) -> Entry | None:
        """Return the file or directory at a path, or None if the path does not exist."""
        entry: Entry = self.root
        for name in parts_of(path):
            child = entry.children.get(name) if isinstance(entry, Directory) else None
            if child is None:
                return None
            entry = child
        return entry

    def get(self, path: str) -> Entry:
        """Return the file or directory at a path. Raises PathNotFound if the path does not exist."""
        entry = self.find(path)
        if entry is None:
            raise PathNotFound(f"{path}: no such file or directory")
        return entry

    def file(self, path: str) -> File:
        """Return the file at a path. Raises PathNotFound, or IsDirectory if the path is a directory."""
        entry = self.get(path)
        if not isinstance(entry, File):
            raise IsDirectory(f"{path}: is a directory")
        return entry

    def files(self, top: Entry | None = None) -> Iterator[File]:
        """Yield all files at or below `top` (default: the root), by directory in the order of creation."""
        return (entry for entry in self.entries(top) if isinstance(entry, File))

    def entries(self, top: Entry | None = None) -> Iterator[Entry]:
        """Yield `top` (the root directory if None) and all files and directories below, parents first."""
        pending: list[Entry] = [top or self.root]
        while pending:
            entry = pending.pop()
            yield entry
            if isinstance(entry, Directory):
                pending.extend(reversed(entry.children.values()))

    def next_block_number(self) -> int:
        """Return the next block's number. Numbers are never used again."""
        return self._last_block + 1

    def rename_target(self, src: str, dst: str) -> str:
        """Return the new path of `src`: a path inside `dst` if `dst` is a directory, otherwise `dst`."""
        names = parts_of(src)
        inside = isinstance(self.find(dst), Directory) and names
        return clean(f"{dst}/{names[-1]}") if inside else clean(dst)

    def was_renamed(self, src: str, dst: str) -> bool:
        """Return whether `src` has already been renamed to `dst`, so that a repeated request is ignored."""
        source = clean(src)
        if self.find(source) is not None:
            return source == clean(dst)
        places = (self.find(dst), self.find(self.rename_target(src, dst)))
        return any(entry is not None and entry.origin == source for entry in places)

    # -- changes ---------------------------------------------------------------------------------------------

    def check(self, change: Change) -> None:
        """Raise a BlockStoreError if a change is not allowed."""
        self._changes[change["op"]][0](change)

    def apply(self, change: Change) -> dict[str, str]:
        """Apply a change that passed `check`. Return {block that belongs to no file now: its former path}."""
        return self._changes[change["op"]][1](change)

    def _check_new(self, path: str) -> None:
        names = parts_of(path)
        if self.find(path) is not None:
            raise PathExists(f"{path}: exists already")
        for depth in range(1, len(names) + 1):
            parent = "/" + "/".join(names[:depth])
            if parent in self._closed:
                raise PathNotFound(f"{parent}: was deleted for good")
            if isinstance(self.find(parent), File):
                raise NotDirectory(f"{parent}: is a file, not a directory")

    def _check_create(self, change: Change) -> None:
        self._check_new(change["path"])

    def _apply_create(self, change: Change) -> dict[str, str]:
        parent = self._directory(parts_of(change["path"])[:-1], change["now_s"])
        parent.modified_s = change["now_s"]
        file = File(
            name=parts_of(change["path"])[-1],
            parent=parent,
            modified_s=change["now_s"],
            replication=change["replication"],
            block_bytes=change["block_bytes"],
            placement=change.get("placement", "hdfs"),
            skew=change.get("skew"),
            is_input=change.get("is_input", False),
        )
        parent.children[file.name] = file
        return {}

    def _check_reopen(self, change: Change) -> None:
        if not self.file(change["path"]).complete:
            raise PathExists(f"{change['path']}: is still being written")

    def _apply_reopen(self, change: Change) -> dict[str, str]:
        self.file(change["path"]).complete = False
        return {}

    def _check_allocate(self, change: Change) -> None:
        if self.file(change["path"]).complete:
            raise PathExists(f"{change['path']}: is complete, no block can be added")

    def _apply_allocate(self, change: Change) -> dict[str, str]:
        file = self.file(change["path"])
        file.blocks[change["block"]] = change["length"]
        self.owners[change["block"]] = file
        self._last_block = block_number(change["block"])
        return {}

    def fill(self, file: File, lengths: Sequence[int], now_s: float) -> None:
        """Add blocks of `lengths` bytes to a new file. Mark the file as complete and as modified at `now_s`."""
        first = self._last_block + 1
        file.blocks = {block_id(first + index): length for index, length in enumerate(lengths)}
        file.complete, file.modified_s = True, now_s
        self.owners.update(dict.fromkeys(file.blocks, file))
        self._last_block += len(lengths)

    def _check_complete(self, change: Change) -> None:
        file = self.file(change["path"])
        wanted = dict(change["blocks"])
        if file.complete and file.blocks != wanted:
            raise PathExists(f"{change['path']}: is complete with other blocks")
        foreign = [block for block in wanted if block not in file.blocks]
        if foreign:
            raise PathNotFound(f"{change['path']}: block {foreign[0]} was not allocated for it")

    def _apply_complete(self, change: Change) -> dict[str, str]:
        file = self.file(change["path"])
        kept = dict(change["blocks"])
        dropped = {block: file.path for block in file.blocks if block not in kept}
        file.blocks, file.complete, file.modified_s = kept, True, change["now_s"]
        return self._disown(dropped)

    def _check_concat(self, change: Change) -> None:
        target, sources = self.file(change["path"]), [self.file(path) for path in change["sources"]]
        if not sources or len({id(file) for file in [target, *sources]}) <= len(sources):
            raise BadPath(f"{change['path']}: expected other files to add, each of them once")
        for file in (target, *sources):
            if not file.complete:
                raise PathExists(f"{file.path}: is still being written")

    def _apply_concat(self, change: Change) -> dict[str, str]:
        target = self.file(change["path"])
        for source in [self.file(path) for path in change["sources"]]:
            target.blocks |= source.blocks
            self.owners |= dict.fromkeys(source.blocks, target)
            self._detach(source, change["now_s"])
        target.modified_s = change["now_s"]
        return {}

    def _check_there(self, change: Change) -> None:
        self.get(change["path"])

    def _apply_set_attributes(self, change: Change) -> dict[str, str]:
        entry, values = self.get(change["path"]), dict(change["attributes"])
        entry.modified_s = values.pop("modified_s", entry.modified_s)
        if "acl" in values:
            values["acl"] = tuple(values["acl"])
        entry.attributes = replace(entry.attributes, **values)
        return {}

    def _check_is_file(self, change: Change) -> None:
        self.file(change["path"])

    def _apply_set_replication(self, change: Change) -> dict[str, str]:
        self.file(change["path"]).replication = change["replication"]
        return {}

    def _check_mkdirs(self, change: Change) -> None:
        if not isinstance(self.find(change["path"]), Directory):
            self._check_new(change["path"])

    def _apply_mkdirs(self, change: Change) -> dict[str, str]:
        self._directory(parts_of(change["path"]), change["now_s"])
        return {}

    def _check_rename(self, change: Change) -> None:
        src, dst = clean(change["src"]), clean(change["dst"])
        self.get(src)
        if src == "/" or dst.startswith(src + "/"):
            raise WrongKind(f"{src}: cannot be moved into itself ({dst})")
        self._check_new(dst)

    def _apply_rename(self, change: Change) -> dict[str, str]:
        entry = self.get(change["src"])
        names = parts_of(change["dst"])
        target = self._directory(names[:-1], change["now_s"])
        entry.origin = clean(change["src"])
        self._detach(entry, change["now_s"])
        entry.name, entry.parent = names[-1], target
        target.children[entry.name] = entry
        target.modified_s = change["now_s"]
        return {}

    def _check_delete(self, change: Change) -> None:
        if change.get("for_good") and self.find(change["path"]) is None:
            return
        entry = self.get(change["path"])
        if entry is self.root:
            raise WrongKind("/: cannot be deleted")
        if isinstance(entry, Directory) and entry.children and not change["recursive"]:
            raise NotEmpty(f"{change['path']}: is a directory that is not empty")

    def _apply_delete(self, change: Change) -> dict[str, str]:
        if change.get("for_good"):
            self._close(clean(change["path"]))
        entry = self.find(change["path"])
        if entry is None:
            return {}
        blocks = {block: file.path for file in self.files(entry) for block in file.blocks}
        self._detach(entry, change["now_s"])
        return self._disown(blocks)

    def _close(self, path: str) -> None:
        below = [other for other in self._closed if other.startswith(f"{path}/")]
        for other in below:
            del self._closed[other]
        self._closed[path] = None

    def _directory(self, names: tuple[str, ...], now_s: float) -> Directory:
        here = self.root
        for name in names:
            child = here.children.get(name)
            if not isinstance(child, Directory):
                child = Directory(name=name, parent=here, modified_s=now_s)
                here.children[name] = child
                here.modified_s = now_s
            here = child
        return here

    def _detach(self, entry: Entry, now_s: float) -> None:
        if entry.parent is not None:
            del entry.parent.children[entry.name]
            entry.parent.modified_s = now_s

    def _disown(self, blocks: dict[str, str]) -> dict[str, str]:
        for block in blocks:
            del self.owners[block]
        return blocks
