"""WebHDFS operations on attributes (owner, permission, times, replication, access control lists) and tokens.

Only the replication has an effect. The other attributes are stored and returned but not enforced, because
every client with the run's token may do everything.
"""

from __future__ import annotations

import re
from typing import Any, overload

from aiohttp import web

from schedbed.cluster.blocks.block_errors import BadPath
from schedbed.cluster.webhdfs import acl_entries, hadoop_token
from schedbed.cluster.webhdfs.acl_entries import Acl
from schedbed.cluster.webhdfs.file_statuses import permission_of
from schedbed.cluster.webhdfs.rest_call import USER, Operations, RestCall, bad_value, done

REPLICATION_MAX = 512
"""The largest number of replicas that HDFS accepts."""
RENEWED_MS = 24 * 3600 * 1000


@overload
def permission_digits(call: RestCall, default: None) -> str | None: ...
@overload
def permission_digits(call: RestCall, default: str) -> str: ...
def permission_digits(call: RestCall, default: str | None) -> str | None:
    """Return the request's `permission` as octal digits without leading zeros, or `default` if missing.

    Raises BadPath if the permission is invalid.
    """
    text = call.text("permission")
    if text is None:
        return default
    if not re.fullmatch("0?[01]?[0-7]{1,3}", text):
        raise bad_value("permission", text, "octal digits from 0 to 1777")
    return f"{int(text, 8):o}"


async def set_permission(call: RestCall) -> web.StreamResponse:
    """Answer SETPERMISSION: set the permission of a file or directory."""
    return await _set(call, permission=permission_digits(call, "755"))


async def set_owner(call: RestCall) -> web.StreamResponse:
    """Answer SETOWNER: set the owner or the group of a file or directory, or both."""
    given = {name: value for name in ("owner", "group") if (value := call.text(name)) is not None}
    if not given:
        raise BadPath("Both owner and group are empty.")
    return await _set(call, **given)


async def set_times(call: RestCall) -> web.StreamResponse:
    """Answer SETTIMES: set the modification and access times of a file or directory.

    The times are in milliseconds since 1970. A time of -1 leaves the stored time unchanged.
    """
    given: dict[str, float] = {}
    for name, field in (("modificationtime", "modified_s"), ("accesstime", "accessed_s")):
        if call.text(name) not in (None, "-1"):
            given[field] = call.store.clock.since_start_s(call.number(name, 0) / 1000)
    return await _set(call, **given)


async def _set(call: RestCall, **attributes: Any) -> web.StreamResponse:
    await call.names.set_attributes(call.path, attributes)
    return web.Response()


async def set_replication(call: RestCall) -> web.StreamResponse:
    """Answer SETREPLICATION: set the wanted number of replicas of a file.

    The result is false if the path is not a file. Nodes create or delete replicas after their next
    heartbeats.
    """
    replication = call.number("replication", call.store.settings.replication, least=1)
    if replication > REPLICATION_MAX:
        raise bad_value("replication", str(replication), f"at most {REPLICATION_MAX}")
    found = await call.store.find(call.path)
    if found is None or found["type"] != "file":
        return done(False)
    await call.names.set_replication(call.path, replication)
    return done(True)


async def check_access(call: RestCall) -> web.StreamResponse:
    """Answer CHECKACCESS. The answer is success for every path that exists, and otherwise an error."""
    await call.names.stat(call.path)
    return web.Response()


async def get_acl_status(call: RestCall) -> web.StreamResponse:
    """Answer GETACLSTATUS: return the owner, group, permission and access control list of a path."""
    found = await call.names.stat(call.path)
    permission = permission_of(found)
    status = {
        "entries": acl_entries.shown_entries(permission.zfill(3), tuple(found["acl"])),
        "group": found["group"] or USER,
        "owner": found["owner"] or USER,
        "permission": permission,
        "stickyBit": len(permission) > 3,
    }
    return web.json_response({"AclStatus": status})


async def set_acl(call: RestCall) -> web.StreamResponse:
    """Answer SETACL: replace the access control list of a path."""
    permission, _ = await _acl_of(call)
    return await _set_acl(call, *acl_entries.from_entries(permission, _spec(call)))


async def modify_acl_entries(call: RestCall) -> web.StreamResponse:
    """Answer MODIFYACLENTRIES: add or replace entries of the access control list of a path."""
    permission, acl = await _acl_of(call)
    return await _set_acl(call, *acl_entries.with_entries(permission, acl, _spec(call)))


async def remove_acl_entries(call: RestCall) -> web.StreamResponse:
    """Answer REMOVEACLENTRIES: remove entries from the access control list of a path."""
    permission, acl = await _acl_of(call)
    return await _set_acl(call, permission, acl_entries.without_entries(acl, _spec(call)))


async def remove_default_acl(call: RestCall) -> web.StreamResponse:
    """Answer REMOVEDEFAULTACL: remove the default entries from the access control list of a directory."""
    permission, acl = await _acl_of(call)
    return await _set_acl(call, permission, acl_entries.without_defaults(acl))


async def remove_acl(call: RestCall) -> web.StreamResponse:
    """Answer REMOVEACL: remove all entries from the access control list of a path."""
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
    text = hadoop_token.encoded(call.store.token, call.user, f"{host}:{port}")
    return web.json_response({"Token": {"urlString": text}})


async def renew_delegation_token(call: RestCall) -> web.StreamResponse:
    """Answer RENEWDELEGATIONTOKEN: return an expiry time one day from now.

    The actual token does not expire before the run ends.
    """
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
