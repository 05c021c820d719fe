"""Tool pinning: changed definitions are noticed, and withheld where configured.

Owns: the fingerprints on disk and what follows from a difference. Never imports upstreams or the
gateway.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import structlog

from armory.domain.catalog import Catalog
from armory.domain.tool import ToolRecord
from armory.errors import ConfigError
from armory.security.settings import PinningMode

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Changed:
    """A tool whose definition is not the one that was pinned."""

    name: str
    pinned: str
    now: str


class Pinning:
    """The fingerprint of every tool as it was first seen.

    Args:
        path: the JSON file; made on the first write.
        mode: `off` looks at nothing; `warn` logs a change and takes the new definition as pinned;
            `block` withholds the tool until `approve` is called for it.

    Raises:
        ConfigError: the file is there and is not what this class writes.
    """

    def __init__(self, path: Path, mode: PinningMode) -> None:
        self.mode: PinningMode = mode
        self._path = path
        self._pins = _read(path) if mode != "off" else {}
        self._told: dict[str, str] = {}
        self.withheld: dict[str, Changed] = {}

    def admit(self, catalog: Catalog) -> Catalog:
        """The snapshot without the tools that are withheld; new tools are pinned on the way."""
        if self.mode == "off":
            return catalog
        dirty = False
        withheld: dict[str, Changed] = {}
        for name, tool in catalog.tools.items():
            key = _key(tool)
            pinned = self._pins.get(key)
            if pinned == tool.fingerprint:
                continue
            if pinned is None:
                self._pins[key] = tool.fingerprint
                dirty = True
                continue
            change = Changed(name, pinned, tool.fingerprint)
            self._tell(change)
            if self.mode == "block":
                withheld[name] = change
            else:
                self._pins[key] = tool.fingerprint
                dirty = True
        self.withheld = withheld
        if dirty:
            _write(self._path, self._pins)
        if not withheld:
            return catalog
        kept = {name: tool for name, tool in catalog.tools.items() if name not in withheld}
        return replace(catalog, tools=kept)

    def withholds(self, tool: ToolRecord) -> bool:
        """Whether a tool that only some callers have is withheld: where another one is pinned."""
        if self.mode != "block":
            return False
        return self._pins.get(_key(tool), tool.fingerprint) != tool.fingerprint

    def approve(self, tool: ToolRecord) -> None:
        """Take a tool's present definition as the pinned one."""
        self._pins[_key(tool)] = tool.fingerprint
        self.withheld.pop(tool.name, None)
        _write(self._path, self._pins)

    def _tell(self, change: Changed) -> None:
        if self._told.get(change.name) != change.now:
            self._told[change.name] = change.now
            _log.warning(
                "tool_definition_changed",
                tool=change.name,
                pinned=change.pinned[:12],
                now=change.now[:12],
                withheld=self.mode == "block",
            )


def _key(tool: ToolRecord) -> str:
    return f"{tool.server}/{tool.original_name}"


def _read(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        found: object = json.loads(text)
        pins = cast("Mapping[str, Any]", found)["tools"]
        return {str(key): str(value) for key, value in cast("dict[Any, Any]", pins).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} is not a file of pinned definitions ({error}); "
            "move it away to pin every tool anew",
            path="security.pinning",
        ) from None


def _write(path: Path, pins: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"version": 1, "tools": dict(sorted(pins.items()))}, indent=1)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).replace(path)
