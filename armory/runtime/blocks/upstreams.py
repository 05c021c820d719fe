"""Builds upstream settings from the block `upstreams`; resolves relative paths.

Owns: which key goes where, and what a relative path counts from. Opens nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from armory.config import Loaded
from armory.config.base import values_for
from armory.config.blocks.upstream import UpstreamConfig
from armory.domain.catalog import ToolRules
from armory.gateway.settings import GROUPS
from armory.runtime.blocks.grants import grant
from armory.upstreams.spec import UpstreamSpec


def upstream_specs(loaded: Loaded) -> list[UpstreamSpec]:
    """The settings of every enabled upstream, in the order of the file."""
    return [
        upstream_spec(key, block, loaded)
        for key, block in loaded.config.upstreams.items()
        if block.enabled
    ]


def upstream_spec(key: str, block: UpstreamConfig, loaded: Loaded) -> UpstreamSpec:
    """The settings of one upstream. Relative paths are relative to the configuration's folder.

    Raises:
        ConfigError: its keys do not fit each other.
    """
    env = dict(block.env)
    if block.command is not None:
        env.setdefault("PATH", _search_path())
    limits = loaded.config.server.limits
    return UpstreamSpec(
        key,
        **values_for(
            UpstreamSpec,
            block,
            but=("command", "env", "cwd", "inherit_env", "auth", "openapi", "skills"),
        ),
        command=_program(block, loaded),
        env=env,
        cwd=_path(block.cwd, loaded),
        inherit_env=(*loaded.config.inherit_env, *block.inherit_env),
        auth=None if block.auth is None else grant(key, block.auth, loaded.home),
        openapi=_description(block.openapi, loaded),
        skills=_path(block.skills, loaded),
        groups=GROUPS in loaded.config.server.experimental,
        ca_file=None if block.tls.ca_file is None else str(loaded.folder / block.tls.ca_file),
        verify=block.tls.verify,
        patient="start_timeout_s" in block.model_fields_set,
        breaker_failures=block.breaker.failures,
        breaker_open_s=block.breaker.open_s,
        message_bytes=limits.stdio_line_bytes,
        list_entries=limits.list_entries,
        list_bytes=limits.list_bytes,
    )


def tool_rules(block: UpstreamConfig) -> ToolRules:
    """The configured rules for one upstream's tools."""
    tags = {pattern: tuple(names) for pattern, names in block.tools.tags.items()}
    if block.tags:
        tags["*"] = (*tags.get("*", ()), *block.tags)
    return ToolRules(
        allow=tuple(block.tools.allow),
        deny=tuple(block.tools.deny),
        rename=dict(block.tools.rename),
        describe=dict(block.tools.describe),
        tags=tags,
        category=block.category,
    )


def _description(given: str | None, loaded: Loaded) -> str | None:
    """A description's URL unchanged, or its path relative to the configuration's folder."""
    if given is None or given.startswith(("http://", "https://")):
        return given
    return _path(given, loaded)


def _program(block: UpstreamConfig, loaded: Loaded) -> str | None:
    """A program name unchanged; a path relative to `cwd`, where there is one: the process starts
    there.
    """
    given = block.command
    if given is None or os.sep not in given:
        return given
    path = os.path.expanduser(given)
    return path if block.cwd is not None else str(loaded.folder.absolute() / path)


def _path(given: str | None, loaded: Loaded) -> str | None:
    return None if given is None else str(loaded.folder / os.path.expanduser(given))


def _search_path() -> str:
    """PATH for stdio servers: as if the virtual environment that Armory runs in were active."""
    inherited = os.environ.get("PATH", os.defpath)
    if sys.prefix == sys.base_prefix:
        return inherited
    own = str(Path(sys.executable).parent)
    return inherited if inherited.split(os.pathsep)[0] == own else own + os.pathsep + inherited
