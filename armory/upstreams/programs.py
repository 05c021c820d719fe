"""The program of a stdio server: where it is, or why it cannot be started and what to do; and those
that may install a server before they start it.

Owns: `program_of`, `Unusable`, and knowing launchers by their command line. Starts nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
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
    """The file that a command means.

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
    """What the system says of a program that is there, in words that help.

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


ALWAYS = frozenset(("npx", "bunx", "pnpx", "uvx", "dnx"))
"""Programs that do nothing else."""

WHEN = {
    "npm": ("exec", "x", "install", "i"),
    "pnpm": ("dlx", "exec"),
    "yarn": ("dlx",),
    "bun": ("x", "install"),
    "uv": ("run", "tool", "sync"),
    "pipx": ("run",),
    "docker": ("run", "compose"),
    "podman": ("run", "compose"),
    "nerdctl": ("run", "compose"),
    "deno": ("run",),
    "go": ("run",),
    "cargo": ("run",),
    "dotnet": ("run", "tool", "dnx"),
    "nix": ("run", "shell", "develop"),
    "mise": ("exec", "x"),
    "poetry": ("run",),
    "hatch": ("run",),
    "jbang": ("",),
}
"""Programs that do so with these words."""

_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "fish", "cmd", "env", "powershell", "pwsh"))
_ENDINGS = (".exe", ".cmd", ".ps1", ".bat")


def launcher_of(command: str, args: Sequence[str]) -> str | None:
    """The launcher that a command line starts; None: a program that is there already.

    Args:
        command: a name or path.
        args: its arguments; those of a shell are looked into.
    """
    name = _name(command)
    if name in ALWAYS:
        return name
    if name in WHEN:
        words = WHEN[name]
        return name if words == ("",) or any(word in words for word in args[:3]) else None
    if name not in _SHELLS:
        return None
    words = [word for argument in args for word in argument.split()]
    for place, word in enumerate(words):
        inner = _name(word)
        if inner in ALWAYS or inner in WHEN:
            return launcher_of(word, words[place + 1 :])
    return None


def _name(command: str) -> str:
    name = command.replace("\\", "/").rpartition("/")[2].lower()
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name
