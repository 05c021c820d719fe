"""Locating the program of a stdio server, or explaining why it cannot be started.

Owns: `program_of`, `refused`, `Unusable`. Starts nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

_INTERPRETER = "name its interpreter as 'command', and the file in 'args'"


class Unusable(OSError):
    """A command that cannot be started.

    Attributes:
        why: what is wrong with it.
        fix: what to do.
    """

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(f"{why}; {fix}")
        self.why = why
        self.fix = fix


def program_of(command: str, path: str | None, cwd: str | None) -> str:
    """The path of the program that a command names.

    Args:
        command: a name on the PATH, or a path, a relative one from `cwd` on.
        path: the PATH that counts; None: that of this process.
        cwd: where it is started; None: where this process runs.

    Raises:
        Unusable: there is none that can be started.
    """
    there = Path(cwd or ".") / command
    if os.sep not in command:
        found = shutil.which(command, path=path)
        if found is None:
            raise Unusable(f"command {command!r} was not found on the PATH", _fix(command, there))
        return found
    if there.is_dir():
        raise Unusable(f"command {command!r} is a folder", "name a program in it")
    if not there.exists():
        fix = _split(command) or "correct it, or install what it names"
        raise Unusable(f"command {command!r} does not exist", fix)
    if not os.access(there, os.X_OK):
        fix = f"make it so (chmod +x), or {_INTERPRETER}"
        raise Unusable(f"command {command!r} is not executable", fix)
    return command


def refused(error: OSError, command: str) -> OSError:
    """Explains an operating-system error at the start of a program that exists.

    Args:
        error: what starting it came to.
        command: as it is configured.
    """
    if error.errno == errno.ENOEXEC:
        return Unusable(
            f"command {command!r} is no program, and does not begin with a line as "
            "#!/usr/bin/env python3",
            f"write that line, or {_INTERPRETER}",
        )
    if error.errno == errno.ENOENT:
        return Unusable(
            f"command {command!r} is there, and the interpreter that its first line names, or its "
            "loader, is not",
            f"correct that line, or {_INTERPRETER}",
        )
    return error


def _fix(command: str, there: Path) -> str:
    if there.is_file():
        return f"write './{command}' for the file in {there.parent.absolute()}"
    return _split(command) or "install it or give its full path"


def _split(command: str) -> str:
    one_line = len(command.split()) > 1
    return "what stands behind the program belongs into 'args'" if one_line else ""
