"""Who runs where, and before whom: as if each had a machine of its own.

    python -m benchmarks.attack.placing ROLE CORES COMMAND [ARGUMENT ...]

Owns: cores and priorities of the gateway, of what measures and of attackers, and how long a process
waited for a core. In the field clients, upstreams and attackers bring their own machines; here the
gateway has its cores to itself, and on the others what measures goes before everything: what an
attacker's own work delays is no delay of the gateway's. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from enum import Enum
from pathlib import Path

_CORES = sorted(os.sched_getaffinity(0))
_HALF = len(_CORES) // 2
GATEWAY_CORES, OTHER_CORES = _CORES[:_HALF] or _CORES, _CORES[_HALF:]
_GROUP = Path("/proc/self/autogroup")


class Role(Enum):
    """What a process is in a run."""

    GATEWAY = "gateway"
    GOOD = "good"
    EVIL = "evil"


_NICE = {Role.GATEWAY: -15, Role.GOOD: -15, Role.EVIL: 0}


def placed(argv: list[str], role: Role, *, apart: bool) -> list[str]:
    """The command that runs at its priority, as far as this user may ask for that.

    Args:
        argv: the command.
        role: what it is.
        apart: whether the gateway has cores to itself.
    """
    cores = (GATEWAY_CORES if role is Role.GATEWAY else OTHER_CORES) if apart else _CORES
    listed = ",".join(map(str, cores))
    # Its interpreter would begin on the core of who starts it: the gateway's, for its children.
    first = ["taskset", "-c", listed] if shutil.which("taskset") else []
    return [*first, sys.executable, "-m", "benchmarks.attack.placing", role.value, listed, *argv]


def take_place(role: Role, cores: list[int]) -> None:
    """Place this process; those that it starts inherit that."""
    os.sched_setaffinity(0, cores)
    may_go_first = _goes_first()
    with contextlib.suppress(OSError):
        if role is Role.EVIL and not may_go_first:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        elif role is not Role.GOOD:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE[role])
    # Where each session is a group of its own to the scheduler, only the groups' priorities count
    # between processes: `nice` alone does nothing.
    if os.getsid(0) != os.getpid():
        with contextlib.suppress(OSError):
            os.setsid()
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):
            _GROUP.write_text(str(_NICE[role]))


def _goes_first() -> bool:
    """Give this process a real-time priority, as what measures needs it: it sleeps nearly always,
    and what wakes it must not wait for another's time slice. Attackers that try it learn whether
    they have to stay behind everybody for that instead.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        return False
    return True


def waited_s(pid: int) -> float:
    """Seconds for which a process's first thread could have run and had no core."""
    fields = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    return int(fields[1]) / 1e9


def main() -> None:
    role, cores, *argv = sys.argv[1:]
    take_place(Role(role), [int(core) for core in cores.split(",")])
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
