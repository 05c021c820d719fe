"""A client's entry for Armory itself, among the servers that are taken over from its file.

Owns: knowing it. Never imports a room but `config`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from armory.config.blocks.server import ServerConfig
from armory.config.checks.itself import is_own
from armory.config.source import Source


def own_entries(upstreams: dict[str, Any], existing: str, into: Path) -> Iterator[str]:
    """The keys of those that are the gateway of a configuration.

    Args:
        upstreams: as they would be added.
        existing: what the configuration holds.
        into: its file.
    """
    server = _server_of(existing)
    for key, block in upstreams.items():
        args = [str(one) for one in block.get("args") or ()]
        reached = any(is_own(text, server) for text in (str(block.get("url")), *args))
        if reached or (_runs_armory(str(block.get("command")), args) and _serves(args, into)):
            yield key


def _server_of(existing: str) -> ServerConfig:
    source = Source(existing)
    block = None if source.problems else source.data.get("server")
    try:
        return ServerConfig.model_validate(block or {})
    except ValidationError:
        return ServerConfig()


def _runs_armory(command: str, args: list[str]) -> bool:
    words = command.split() + args  # some write all of it as the command
    return "serve" in args and any(os.path.basename(word) == "armory" for word in words)


def _serves(args: list[str], into: Path) -> bool:
    """Whether that file, or the one that it would find, is served."""
    named = [file for option, file in pairwise(args) if option == "--config"]
    return not named or os.path.realpath(os.path.expanduser(named[-1])) == os.path.realpath(into)
