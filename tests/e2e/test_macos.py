"""A gateway on Python as macOS has it, as far as Linux can stand in for it.

What only Linux has is taken away before anything of Armory is imported: system calls of `os`,
`signal` and `select`, `/proc` and `/sys`, uvloop. A shell of macOS grants 256 open files.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ROOT, Command

MACOS = r"""
import os, resource, select, signal, socket, sys, sysconfig, types

sysconfig.get_config_vars()  # what this Python was built with stays as it is
sys.platform = "darwin"
for module, names in (
    (os, "pidfd_open sched_getaffinity sched_setaffinity sched_getscheduler sched_setscheduler "
         "SCHED_OTHER memfd_create eventfd splice posix_fadvise posix_fallocate getrandom "
         "getresuid setresuid getxattr setxattr copy_file_range accept4 pipe2 fdatasync"),
    (signal, "pidfd_send_signal SIGRTMIN SIGRTMAX sigwaitinfo sigtimedwait SIGPWR SIGSTKFLT"),
    (select, "epoll"),
    (socket, "TCP_KEEPIDLE TCP_USER_TIMEOUT SO_PEERCRED AF_NETLINK AF_PACKET AF_VSOCK"),
    (resource, "prlimit"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
if hasattr(os, "process_cpu_count"):  # it was made for what is gone now
    os.process_cpu_count = os.cpu_count
proxies = types.ModuleType("_scproxy")  # urllib asks macOS for them
proxies._get_proxies = proxies._get_proxy_settings = dict
sys.modules["_scproxy"] = proxies
sys.modules["uvloop"] = None

def watch(event, arguments):
    path = arguments[0] if arguments else None
    if event in ("open", "os.listdir", "os.scandir") and isinstance(path, (str, bytes)):
        text = os.fsdecode(path)
        if text.startswith(("/proc", "/sys/")):
            raise FileNotFoundError(2, "No such file or directory", text)

sys.addaudithook(watch)
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
"""
pytestmark = [
    pytest.mark.timeout(200),
    pytest.mark.skipif(sys.platform != "linux", reason="takes away what Linux has"),
]


def test_a_gateway_serves_calls_and_ends_without_what_only_linux_has(
    serve: Callable[..., Any],
    armory: Command,
    demo_upstreams: dict[str, Any],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "macos"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(MACOS)
    served = serve(
        {"upstreams": {"notes": demo_upstreams["notes"]}, "server": {"event_loop": "auto"}},
        env={"PYTHONPATH": f"{folder}:{ROOT}"},
    ).searchable()
    called = armory("call", "--url", served.url, "notes__list_notes", "{}")
    assert called.returncode == 0, called
    assert json.loads(called.stdout) == {"notes": []}
    listed = armory("tools", "--url", served.url, "--query", "write down a thought")
    assert "notes__" in listed.stdout
    assert "notes" in armory("status").stdout
    files, _ = resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)
    assert files >= 1_024
    assert served.stop() == 0
    assert "Exception" not in "".join(served.log), served.log
