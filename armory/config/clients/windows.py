"""Command lines that were written for Windows, as they are here.

People who run Armory in WSL bring the file of a client that runs on Windows itself. Owns: what such
a line loses, and what is said of the rest. Never imports a room above `domain`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_SWITCHES = frozenset(("/c", "/k", "/d", "/s", "/q"))
_WITH_VALUE = frozenset(("-d", "--distribution", "-u", "--user", "--cd", "--shell-type"))
_ALONE = frozenset(("-e", "--exec", "--", "~", "--system"))
_EVERYWHERE = frozenset(
    ("npx", "npm", "node", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno", "uv", "uvx", "docker")
)
"""Programs that are called so on every system, wherever they are."""
_PATH = re.compile(r"([A-Za-z]):[\\/](.*)", re.DOTALL)
_ENDING = re.compile(r"\.(?:exe|cmd|bat|ps1)$", re.IGNORECASE)
_SHOWN = 2
"""Most paths of a server that are told of."""


def adapt_from_windows(key: str, block: dict[str, Any]) -> Iterator[str]:
    """Take out of an upstream what only Windows needs (`cmd /c`, `wsl`, `npx.cmd`).

    Args:
        key: the upstream's.
        block: its block, which is changed.

    Yields:
        A notice of what was taken out, and of paths (two at most) that stay as they are.
    """
    command, args = block.get("command"), block.get("args", [])
    if not (isinstance(command, str) and _are_texts(args)):
        return
    line = _without_launcher([command, *args])
    name = _name(line[0])
    if name in _EVERYWHERE and name != line[0]:
        line = [name, *line[1:]]
    if line != [command, *args]:
        block["command"], block["args"] = line[0], line[1:]
        yield f"server {key!r}: '{command}', as Windows needs it, is {line[0]!r} here"
    env, cwd = block.get("env"), block.get("cwd")
    values = [*line, cwd, *(env.values() if isinstance(env, dict) else ())]
    paths = [value for value in values if isinstance(value, str) and _PATH.match(value)]
    for path in paths[:_SHOWN]:
        yield f"server {key!r}: '{path}' is a path of Windows; in WSL it is '{_in_wsl(path)}'"


def _are_texts(args: Any) -> bool:
    return isinstance(args, list) and all(isinstance(one, str) for one in args)


def _without_launcher(line: list[str]) -> list[str]:
    """The line behind `cmd /c` or `wsl`; the line itself where there is none."""
    name, rest = _name(line[0]), line[1:]
    if name == "cmd":
        while rest and rest[0].lower() in _SWITCHES:
            rest = rest[1:]
    elif name == "wsl":
        while rest and (rest[0] in _ALONE or rest[0] in _WITH_VALUE):
            rest = rest[1 + (rest[0] in _WITH_VALUE) :]
    else:
        return line
    if len(rest) == 1 and '"' not in rest[0]:
        rest = rest[0].split()
    return rest or line


def _name(program: str) -> str:
    """The program without folder and ending: `npx` of a path that ends in `npx.cmd`."""
    last = re.split(r"[\\/]", program)[-1] if _PATH.match(program) else program
    return _ENDING.sub("", last).lower()


def _in_wsl(path: str) -> str:
    found = _PATH.match(path)
    assert found is not None
    return f"/mnt/{found[1].lower()}/" + found[2].replace("\\", "/")
