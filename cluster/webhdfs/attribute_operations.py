"""WebHDFS operations on attributes and tokens.

Only the replication has an effect: every client with the run's token may do everything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, overload

from aiohttp import web

from schedbed.cluster.blocks.block_errors import BadPath
from schedbed.cluster.clock import RunClock
from schedbed.cluster.webhdfs import rest_call
from schedbed.cluster.webhdfs.rest_call import USER, Json, Operations, RestCall, bad_value, done

REPLICATION_MAX = 512
"""The largest number of replicas that HDFS accepts."""
RENEWED_MS = 24 * 3600 * 1000


@overload
def permission_digits(call: RestCall, default: None) -> str | None: ...
@overload
def permission_digits(call: RestCall, default: str) -> str: ...
def permission_digits(call: RestCall, default: str | None) -> str | None:
    """Return `permission` as octal digits without leading zeros, or `default`. Raises BadPath."""
    text = call.text("permission")
    if text is None:
        return default
    if not re.fullmatch("0?[01]?[0-7]{1,3}", text):
        raise bad_value("permission", text, "octal digits from 0 to 1777")
    return f"{int(text, 8):o}"


async def set_permission(call: RestCall) -> web.StreamResponse:
    return await _set(call, permission=permission_digits(call, "755"))


async def set_owner(call: RestCall) -> web.StreamResponse:
    """Answer SETOWNER: set the owner or the group of a file or directory, or both."""
    given = {name: value for name in ("owner", "group") if (value := call.text(name)) is not None}
    if not given:
        raise BadPath("Both owner and group are empty.")
    return await _set(call, **given)


async def set_times(call: RestCall) -> web.StreamResponse:
    """Answer SETTIMES, in milliseconds since 1970; -1 leaves a time unchanged."""
    given: dict[str, float] = {}
    for name, field in (("modificationtime", "modified_s"), ("accesstime", "accessed_s")):
        if call.text(name) not in (None, "-1"):
            given[field] = call.store.clock.since_start_s(call.number(name, 0) / 1000)
    return await _set(call, **given)


async def _set(call: RestCall, **attributes: Any) -> web.StreamResponse:
    await call.names.set_attributes(call.path, attributes)
    return web.Response()


async def set_replication(call: RestCall) -> web.StreamResponse:
    """Answer SETREPLICATION: false for anything but a file. Nodes follow after their next heartbeats."""
    replication = call.number("replication", call.store.settings.replication, least=1)
    if replication > REPLICATION_MAX:
        raise bad_value("replication", str(replication), f"at most {REPLICATION_MAX}")
    found = await call.store.find(call.path)
    if found is None or found["type"] != "file":
        return done(False)
    await call.names.set_replication(call.path, replication)
    return done(True)


async def check_access(call: RestCall) -> web.StreamResponse:
    """Answer CHECKACCESS: success for every path that exists."""
    await call.names.stat(call.path)
    return web.Response()


async def get_acl_status(call: RestCall) -> web.StreamResponse:
    """Answer GETACLSTATUS: return the owner, group, permission and access control list of a path."""
    found = await call.names.stat(call.path)
    permission = permission_of(found)
    status = {
        "entries": shown_entries(permission.zfill(3), tuple(found["acl"])),
        "group": found["group"] or USER,
        "owner": found["owner"] or USER,
        "permission": permission,
        "stickyBit": len(permission) > 3,
    }
    return web.json_response({"AclStatus": status})


async def set_acl(call: RestCall) -> web.StreamResponse:
    """Answer SETACL."""
    permission, _ = await _acl_of(call)
    return await _set_acl(call, *from_entries(permission, _spec(call)))


async def modify_acl_entries(call: RestCall) -> web.StreamResponse:
    """Answer MODIFYACLENTRIES."""
    permission, acl = await _acl_of(call)
    return await _set_acl(call, *with_entries(permission, acl, _spec(call)))


async def remove_acl_entries(call: RestCall) -> web.StreamResponse:
    """Answer REMOVEACLENTRIES."""
    permission, acl = await _acl_of(call)
    return await _set_acl(call, permission, without_entries(acl, _spec(call)))


async def remove_default_acl(call: RestCall) -> web.StreamResponse:
    """Answer REMOVEDEFAULTACL."""
    permission, acl = await _acl_of(call)
    return await _set_acl(call, permission, without_defaults(acl))


async def remove_acl(call: RestCall) -> web.StreamResponse:
    """Answer REMOVEACL."""
    return await _set(call, acl=())


def _spec(call: RestCall) -> str:
    return call.needed("aclspec", "entries such as user:ana:rw-")


async def _acl_of(call: RestCall) -> tuple[str, Acl]:
    found = await call.names.stat(call.path)
    return permission_of(found).zfill(3), tuple(found["acl"])


async def _set_acl(call: RestCall, permission: str, acl: Acl) -> web.StreamResponse:
    return await _set(call, permission=permission, acl=acl)


async def get_delegation_token(call: RestCall) -> web.StreamResponse:
    """Answer GETDELEGATIONTOKEN: return the run's token, encoded as a delegation token of Hadoop."""
    assert call.request.transport is not None
    host, port = call.request.transport.get_extra_info("sockname")[:2]
    text = rest_call.encoded(call.store.token, call.user, f"{host}:{port}")
    return web.json_response({"Token": {"urlString": text}})


async def renew_delegation_token(call: RestCall) -> web.StreamResponse:
    """Answer RENEWDELEGATIONTOKEN with one day from now. The token does not expire before the run ends."""
    clock = call.store.clock
    return web.json_response({"long": round(clock.time_of_day_s(clock.now_s()) * 1000) + RENEWED_MS})


ATTRIBUTE_OPERATIONS: Operations = {
    ("PUT", "SETPERMISSION"): set_permission,
    ("PUT", "SETOWNER"): set_owner,
    ("PUT", "SETTIMES"): set_times,
    ("PUT", "SETREPLICATION"): set_replication,
    ("GET", "CHECKACCESS"): check_access,
    ("GET", "GETACLSTATUS"): get_acl_status,
    ("PUT", "SETACL"): set_acl,
    ("PUT", "MODIFYACLENTRIES"): modify_acl_entries,
    ("PUT", "REMOVEACLENTRIES"): remove_acl_entries,
    ("PUT", "REMOVEDEFAULTACL"): remove_default_acl,
    ("PUT", "REMOVEACL"): remove_acl,
    ("GET", "GETDELEGATIONTOKEN"): get_delegation_token,
    ("PUT", "RENEWDELEGATIONTOKEN"): renew_delegation_token,
}


# Access control lists in HDFS's notation. They are stored and returned but not enforced.
#
# The rights of owner, group and others are stored as the digits of the permission. All other entries, such
# as those of named users, are stored in the list.

BASE = ("user:", "group:", "other:")
"""The entries that correspond to the last three digits of a permission, in order."""
_ENTRY = re.compile(r"((?:default:)?(?:user|group|mask|other):[^:,]*)(?::([r-][w-][x-])?)?")
_BITS = "rwx"

Acl = tuple[str, ...]


def with_entries(permission: str, acl: Iterable[str], spec: str) -> tuple[str, Acl]:
    """Return permission and list after the entries in `spec`, such as `user:ana:rw-,...`. Raises BadPath."""
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
    """Return permission and list with exactly the entries in `spec`. A sticky bit stays. Raises BadPath."""
    if not set(BASE) <= set(_parsed(spec)):
        raise BadPath("Invalid ACL: the user, group and other entries are required.")
    return with_entries(permission, (), spec)


def without_entries(acl: Iterable[str], spec: str) -> Acl:
    """Return a list without the entries in `spec`. Raises BadPath."""
    gone = set(_parsed(spec))
    return tuple(each for each in acl if _split(each)[0] not in gone)


def without_defaults(acl: Iterable[str]) -> Acl:
    """Return a list without the default entries, which a directory passes to new files."""
    return tuple(each for each in acl if not each.startswith("default:"))


def shown_entries(permission: str, acl: Acl) -> list[str]:
    """Return the list for GETACLSTATUS, with the group's entry beside any that is no default entry."""
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


# The status of files, directories and blocks in the JSON format of WebHDFS.

SLACK_MS = 1e-3
"""Tolerance for rounding: times are stored as float seconds, and must return as the same millisecond."""


def file_status(entry: Mapping[str, Any], clock: RunClock, suffix: str = "") -> Json:
    """Return the FileStatus for a `NameNode.stat`. `suffix` is the name within a listed directory."""
    is_file = entry["type"] == "file"
    modified_ms = _milliseconds(clock, entry["modified_s"])
    accessed_ms = modified_ms if is_file else 0
    if entry["accessed_s"] is not None:
        accessed_ms = _milliseconds(clock, entry["accessed_s"])
    return {
        "accessTime": accessed_ms,
        **({"aclBit": True} if entry["acl"] else {}),
        "blockSize": entry["block_bytes"],
        "childrenNum": entry["children"],
        "group": entry["group"] or USER,
        "length": entry["length"],
        "modificationTime": modified_ms,
        "owner": entry["owner"] or USER,
        "pathSuffix": suffix,
        "permission": permission_of(entry),
        "replication": entry["replication"],
        "type": "FILE" if is_file else "DIRECTORY",
    }


def permission_of(entry: Mapping[str, Any]) -> str:
    """Return octal digits: 644 for files and 755 for directories if none were set."""
    return entry["permission"] or ("644" if entry["type"] == "file" else "755")


def _milliseconds(clock: RunClock, emulated_s: float) -> int:
    return math.floor(clock.time_of_day_s(emulated_s) * 1000 + SLACK_MS)  # The result is never in the future.


def block_location(block: Mapping[str, Any], nodes: Mapping[str, Any]) -> Json:
    """Return the BlockLocation for a row of `NameNode.locate`. `nodes` is as of `NameNode.nodes`."""
    holders = [node for node in block["nodes"] if node in nodes]
    names = [nodes[node]["url"].rpartition("/")[2] for node in holders]
    racks = [nodes[node]["rack"] for node in holders]
    return {
        "cachedHosts": [],
        "corrupt": not holders,
        "hosts": holders,
        "length": block["length"],
        "names": names,
        "offset": block["offset"],
        "storageTypes": ["DISK"] * len(holders),
        "topologyPaths": [f"/{rack}/{name}" for rack, name in zip(racks, names, strict=True)],
    }
