"""Launchers: programs that may download and install a server before they start it.

Owns: knowing them by their command line. Starts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_ALWAYS = frozenset(("npx", "bunx", "pnpx", "uvx", "dnx", "jbang"))
"""Launchers that may install a package whatever their arguments are."""

_WITH_WORD = {
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
}
"""Launchers that may do so with one of these words among their first three arguments."""

_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "fish", "cmd", "env", "powershell", "pwsh"))
_CONTAINERS = frozenset(("docker", "podman", "nerdctl"))
_WITH_INPUT = re.compile(r"-[a-zA-Z]*i[a-zA-Z]*|--interactive(?:=true)?")
_ENDINGS = (".exe", ".cmd", ".ps1", ".bat")


def launcher_of(command: str, args: Sequence[str]) -> str | None:
    """The launcher that a command line starts; None: a program that needs no installing.

    Args:
        command: a name or path.
        args: its arguments; those of a shell are looked into.
    """
    name = _name(command)
    if name in _ALWAYS:
        return name
    if name in _WITH_WORD:
        return name if any(word in _WITH_WORD[name] for word in args[:3]) else None
    if name not in _SHELLS:
        return None
    words = [word for argument in args for word in argument.split()]
    for place, word in enumerate(words):
        inner = _name(word)
        if inner in _ALWAYS or inner in _WITH_WORD:
            return launcher_of(word, words[place + 1 :])
    return None


def lacks_input(command: str, args: Sequence[str]) -> bool:
    """Whether a container is run without `-i`: its standard input is empty then.

    Args:
        command: a name or path.
        args: its arguments.
    """
    if _name(command) not in _CONTAINERS or "run" not in args[:2]:
        return False
    return not any(_WITH_INPUT.fullmatch(word) for word in args)


def _name(command: str) -> str:
    name = command.replace("\\", "/").rpartition("/")[2].lower()
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name
