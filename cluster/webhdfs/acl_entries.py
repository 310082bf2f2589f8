"""Access control lists in HDFS's notation. They are stored and returned but not enforced.

The rights of owner, group and others are stored as the digits of the permission. All other entries, such as
those of named users, are stored in the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from schedbed.cluster.blocks.block_errors import BadPath

BASE = ("user:", "group:", "other:")
"""The entries that correspond to the last three digits of a permission, in order."""
_ENTRY = re.compile(r"((?:default:)?(?:user|group|mask|other):[^:,]*)(?::([r-][w-][x-])?)?")
_BITS = "rwx"

Acl = tuple[str, ...]


def with_entries(permission: str, acl: Iterable[str], spec: str) -> tuple[str, Acl]:
    """Return a permission and an access control list, after adding or replacing the entries in `spec`.

    `spec` contains entries such as `user:ana:rw-`, separated by commas. Raises BadPath if `spec` is invalid.
    """
    entries = dict(_split(each) for each in acl)
    digits = list(permission)
    for name, rights in _parsed(spec).items():
        if not rights:
            raise BadPath(f"{spec}: the permission of {name} is missing")
        if name in BASE:
            digits[BASE.index(name) - len(BASE)] = _digit(rights)
        else:
            entries[name] = rights
    return "".join(digits), tuple(f"{name}:{rights}" for name, rights in sorted(entries.items()))


def from_entries(permission: str, spec: str) -> tuple[str, Acl]:
    """Return a permission and an access control list with exactly the entries in `spec`.

    Raises BadPath if `spec` is invalid or lacks the entry of owner, group or others. A leading digit of
    `permission` (the sticky bit) is preserved.
    """
    if not set(BASE) <= set(_parsed(spec)):
        raise BadPath("Invalid ACL: the user, group and other entries are required.")
    return with_entries(permission, (), spec)


def without_entries(acl: Iterable[str], spec: str) -> Acl:
    """Return an access control list without the entries in `spec`. Raises BadPath if `spec` is invalid."""
    gone = set(_parsed(spec))
    return tuple(each for each in acl if _split(each)[0] not in gone)


def without_defaults(acl: Iterable[str]) -> Acl:
    """Return an access control list without its default entries, which a directory passes to new files."""
    return tuple(each for each in acl if not each.startswith("default:"))


def shown_entries(permission: str, acl: Acl) -> list[str]:
    """Return the access control list for the answer to GETACLSTATUS, with an entry for the group if needed.

    The group's entry, computed from `permission`, is needed if `acl` has any entry that is not a default
    entry.
    """
    if not without_defaults(acl):
        return list(acl)
    digit = int(permission[-2])
    rights = "".join(bit if digit & 4 >> at else "-" for at, bit in enumerate(_BITS))
    return [*acl, f"group::{rights}"]


def _parsed(spec: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in spec.split(","):
        match = _ENTRY.fullmatch(text)
        if match is None:
            raise BadPath(f"Invalid <aclSpec> : {text}, expected such as user:ana:rw-")
        found[match[1]] = match[2] or ""
    return found


def _split(entry: str) -> tuple[str, str]:
    name, _, rights = entry.rpartition(":")
    return name, rights


def _digit(rights: str) -> str:
    return str(sum(4 >> at for at, right in enumerate(rights) if right != "-"))
