"""Checks of the machine: versions, memory, clock, port, folders, key.

Owns: those checks. Changes nothing that stays.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from armory.config import Loaded
from armory.errors import ConfigError
from armory.files import disk_left
from armory.runtime.blocks.auditing import audit_file
from armory.runtime.blocks.encryption import KEY_FILE, has_key_file, seals
from armory.runtime.doctor.findings import Finding, failed, ok, warning
from armory.runtime.entry.local_access import running_at
from armory.runtime.version import armory_version
from armory.web.binding import bind

PACKAGES = ("mcp", "aiohttp", "msgspec", "onnxruntime", "sqlalchemy", "qdrant-client")
_NEEDED_MB = 200
_WANTED_MB = 400
_NEEDED_DISK, _WANTED_DISK = 16 << 20, 128 << 20
"""Bytes. SQLite's log alone takes four megabytes beside its file."""
_GROUP = Path("/sys/fs/cgroup")
_GROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)
"""Files of both versions of control groups: the limit, what is used, and the part of that in pages
of files, which the kernel frees before it kills a process."""
_OLDEST = 1_767_225_600
"""2026-01-01: a clock before it is wrong, and certificates and tokens fail."""


def machine(loaded: Loaded) -> Iterator[Finding]:
    """All checks of the machine."""
    yield versions()
    yield memory()
    yield clock(time.time())
    yield port(loaded)
    yield from folders(loaded)
    yield from key(loaded)


def versions() -> Finding:
    """Versions of Python, Armory and its main dependencies."""
    found = [f"armory {armory_version()}", f"Python {platform.python_version()}"]
    missing: list[str] = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    text = f"{', '.join(found)}; {platform.system()} {platform.machine()}, {sys.executable}"
    if missing:
        return failed(
            "versions",
            f"not installed: {', '.join(missing)}; {text}",
            "install Armory again: pip install --force-reinstall armory-mcp-gateway",
        )
    return ok("versions", text)


def memory() -> Finding:
    """The memory that is available: on the machine, and in its control group."""
    left = [mb for mb in (_available_mb(), _group_mb()) if mb is not None]
    if not left:
        return ok("memory", "this system does not tell")
    mb = min(left)
    detail = f"{mb:,} MB are left"
    if mb < _NEEDED_MB:
        fix = f"a gateway takes about {_NEEDED_MB} MB with the embedded model; raise the limit"
        return failed("memory", detail, fix)
    if mb < _WANTED_MB:
        return warning("memory", detail, "stdio servers need memory besides, about 70 MB each")
    return ok("memory", detail)


def _available_mb() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) // 1024 if found else None


def _group_mb(folder: Path = _GROUP) -> int | None:
    """The rest of the control group's limit; None: there is none."""
    for limit, used, given_back in _GROUP_FILES:
        try:
            most = int((folder / limit).read_text())
            taken = int((folder / used).read_text())
            stat = (folder / used).with_name("memory.stat").read_text().split()
            return (most - taken + int(stat[stat.index(given_back) + 1])) >> 20
        except (OSError, ValueError):
            continue
    return None


def clock(now: float) -> Finding:
    """Whether the machine's clock is plausible."""
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < _OLDEST:
        return failed(
            "clock",
            f"it says {shown}: certificates and tokens are not valid yet then",
            "set it, and let NTP keep it (timedatectl set-ntp true)",
        )
    return ok("clock", f"it says {shown}")


def port(loaded: Loaded) -> Finding:
    """Whether the port can be bound, or is used by this user's own gateway."""
    server = loaded.config.server
    try:
        bind(server.host, server.port).close()
    except ConfigError as error:
        if own := running_at(loaded.home, server.port):
            return ok("port", f"{server.port}: a gateway of yours runs there (pid {own.pid})")
        fix = f"end the other program (ss -ltnp 'sport = :{server.port}'), or set server.port"
        return failed("port", error.message, fix)
    return ok("port", f"{server.port} of {server.host} is free")


def folders(loaded: Loaded) -> Iterator[Finding]:
    """Whether the folders that are written to are writable."""
    wanted = {"folder ARMORY_HOME": loaded.home}
    wanted["folder storage.cache_dir"] = Path(loaded.config.storage.cache_dir)
    file = audit_file(loaded)
    if file is not None:
        wanted["folder observability.audit.to"] = file.parent
    for check, folder in wanted.items():
        yield _writable(check, folder)


def key(loaded: Loaded) -> Iterator[Finding]:
    """Whether the key file that seals people's logins can be used, where there is one."""
    if not has_key_file(loaded):
        return
    file = loaded.home / KEY_FILE
    try:
        seals(loaded)
    except ConfigError as error:
        fix = "put the saved file back, or set security.encryption_key to what it held"
        yield failed("key", error.message.removeprefix(f"{error.path}: "), fix)
    else:
        yield ok("key", f"{file} opens what people's logins are sealed with: save it")


def unwritable(folder: Path) -> str:
    """Why a folder, which may not exist yet, cannot be written to; "": it can."""
    there, user = _nearest(folder), f"user {os.geteuid()}"
    if not there.is_dir():
        return f"{there} is a file"
    try:
        with tempfile.TemporaryFile(dir=there):
            return ""
    except OSError as error:
        return f"{there} cannot be written by {user}: {error.strerror}"


def _nearest(folder: Path) -> Path:
    """The folder, or its nearest existing parent."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _writable(check: str, folder: Path) -> Finding:
    there = _nearest(folder)
    if why := unwritable(folder):
        fix = f"let user {os.geteuid()} write there (chown, a volume), or name another folder"
        if not there.is_dir():
            fix = f"move it away, or name another folder than {folder}"
        return failed(check, why, fix)
    found = there.stat()
    if (left := disk_left(there)) is not None and left[1] < _WANTED_DISK:
        what = f"its disk, mounted at {left[0]}, has {left[1] >> 20:,} MB left"
        fix = "make room there; what cannot be written is lost"
        return (failed if left[1] < _NEEDED_DISK else warning)(check, f"{folder}: {what}", fix)
    mine = found.st_uid == os.geteuid()  # a volume's folder is root's, and stays as it is
    home = Path(os.path.expanduser("~"))  # which some users lack
    if there == folder == home and found.st_mode & 0o077 and mine:
        return warning(check, f"{folder} is a home folder", "give Armory a folder of its own")
    return ok(check, str(folder) if there == folder else f"{folder} will be made")
