"""Runs a module with a user's code confined to itself: `python -m ... confined MODULE FD TRUSTED FOLDER...`.

The code has no capability, no network, and sees no other process. It reads the system's files and the given
folders, but no home folder, and writes only to an empty /tmp of its own. If root runs the command, the code's
user is nobody. TRUSTED is 1 for --trust-code: the code then only loses its capabilities.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import pwd
import runpy
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import schedbed

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PIDS, NEW_NETWORK = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
MOUNT_SETATTR, AT_RECURSIVE, ATTR_RDONLY_NOSUID = 442, 0x8000, 3
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 24, 38
CAPABILITY_VERSION_3 = 0x20080522
CAPABILITIES = 64
NOBODY = 65534
SCRATCH = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
HIDDEN = (Path("/run"), *SCRATCH)  # /run has the sockets of services, such as a Docker engine's.
_libc = ctypes.CDLL(None, use_errno=True)


def confine(folders: Iterable[str]) -> None:
    """Confine this process. It goes on in a child; this one waits and ends as the child did. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    _done(_libc.unshare(NEW_MOUNTS | NEW_IPC | NEW_PIDS | NEW_NETWORK | (NEW_USER if user else 0)), "unshare")
    if user:  # Files keep their owners' names, which makes errors readable.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _confine_files([*folders, *_python()], user)
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV)
    if not user:
        for capability in range(CAPABILITIES):  # Only root may do so.
            _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    drop_capabilities()
    _libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # Else root would own this process's folder in /proc.
    os.chdir("/tmp")


def _python() -> list[str]:
    """Return the folders of Python, of its modules, of this package, and of commands."""
    package = Path(schedbed.__file__).parent
    return [
        sys.prefix,
        sys.base_prefix,
        *map(str, [package, *package.iterdir()]),
        *sys.path,
        *os.get_exec_path(),
    ]


def _confine_files(shown: Iterable[str], user: int) -> None:
    """Make all files read-only, and hide folders but for those `shown`."""
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    attributes = (ctypes.c_uint64 * 4)(ATTR_RDONLY_NOSUID, 0, 0, 0)
    done = _libc.syscall(MOUNT_SETATTR, -100, b"/", AT_RECURSIVE, attributes, ctypes.sizeof(attributes))
    _done(done, "mount_setattr")
    paths = [path for path in map(Path, shown) if path.is_absolute() and os.access(path, os.X_OK)]
    # A link is found only when its target is there, so targets come first.
    kept = {path: os.open(path, os.O_PATH) for path in [*sorted({path.resolve() for path in paths}), *paths]}
    homes = [
        Path(os.environ.get("HOME", "/")),
        *(Path(each.pw_dir) for each in pwd.getpwall() if each.pw_uid == user),
    ]
    for folder in dict.fromkeys([*HIDDEN, *homes, *map(_closed_part, kept)]):
        if folder != Path("/") and os.access(folder, os.X_OK):
            _mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, b"mode=755")
    for folder in SCRATCH:
        with suppress(FileNotFoundError):
            folder.chmod(0o1777)
    for path, opened in kept.items():
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(opened)):
            path.mkdir(parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{opened}", path, None, MS_BIND | MS_REC)
        os.close(opened)


def _closed_part(path: Path) -> Path:
    """Return the topmost folder of a path that other users may not enter, or /."""
    return next((each for each in reversed(path.resolve().parents) if not each.stat().st_mode & 1), Path("/"))


def drop_capabilities() -> None:
    """Give up all capabilities, also those of programs that are started later."""
    for capability in range(CAPABILITIES):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc.capset((ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)())


def _mount(
    source: str | None, target: str | Path, kind: str | None, flags: int, data: bytes | None = None
) -> None:
    texts = [None if text is None else text.encode() for text in (source, str(target), kind)]
    _done(_libc.mount(*texts, ctypes.c_ulong(flags), data), f"mount {target}")


def _done(result: int, step: str) -> None:
    if result:
        error = ctypes.get_errno()
        raise OSError(f"{step}: {os.strerror(error)}")


def _main(module: str, answers: str, trusted: str, *folders: str) -> None:
    """Run `module`, or nothing if it is empty, or answer why it cannot be confined."""
    if trusted == "1":
        drop_capabilities()
    else:
        try:
            confine(folders)
            os.environ |= {"HOME": "/tmp", "TMPDIR": "/tmp"}
            importlib.import_module("schedbed.tasks.own.judge")  # All of Python may be closed to others.
        except (OSError, ImportError) as error:
            os.write(int(answers), json.dumps({"error": str(error)}).encode())
            return
    if not module:
        os.write(int(answers), b"{}")
        return
    sys.argv[:] = [module, answers]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
