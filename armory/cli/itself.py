"""Detects a gateway that would be its own upstream, or start itself again and again.

Owns: refusing that, and the variable by which a gateway knows what those serve that started it.
"""

from __future__ import annotations

import os
from pathlib import Path

from armory.config import Loaded
from armory.config.checks.itself import own_upstreams
from armory.config.problems import dotted
from armory.errors import ConfigError

SERVED = "ARMORY_SERVED"
"""The files of the gateways that a process descends from; stdio servers inherit it."""


def check_upstreams(loaded: Loaded) -> Loaded:
    """Check that no upstream is the gateway that listens.

    Args:
        loaded: with the address that it listens on.

    Raises:
        ConfigError: one is.
    """
    for path, url in own_upstreams(loaded.config):
        raise ConfigError(
            f"{url} is this gateway itself, which would list its own tools without an end; take "
            "that upstream out",
            path=dotted(path),
        )
    return loaded


def descend(path: Path, *, stdio: bool) -> None:
    """Tell the servers that will be started what is served here.

    Args:
        path: the configuration.
        stdio: whether this gateway may have been started as a stdio server.

    Raises:
        ConfigError: it was, by a gateway that serves the same file.
    """
    own = os.path.realpath(path)
    served = [one for one in os.environ.get(SERVED, "").split(os.pathsep) if one]
    if stdio and own in served:
        raise ConfigError(
            f"{path} is served by the gateway that started this one, which would start the next, "
            "and so on; take the upstream that runs `armory serve` out of it"
        )
    os.environ[SERVED] = os.pathsep.join((*served, own))
