"""Tool pinning: changed definitions are noticed, and withheld where configured.

Owns: the definitions on disk and what follows from a difference. Never imports upstreams or the
gateway.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import unified_diff
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
    """A tool whose definition is not the one that was pinned.

    Attributes:
        name: exposed name.
        key: under which it is pinned.
        pinned, now: fingerprints.
        before: the pinned definition; None where only its fingerprint is known.
        after: the present one.
    """

    name: str
    pinned: str
    now: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    key: str = ""

    def difference(self) -> list[str]:
        """What changed, as lines of a unified difference of the definitions' JSON.

        Characters that cannot be seen are spelled out, since they are how text is hidden.
        """
        if self.before is None or self.after is None:
            return []
        lines = (_lines(self.before), _lines(self.after))
        return list(unified_diff(*lines, n=2, lineterm=""))[2:]


@dataclass(frozen=True, slots=True)
class _Pin:
    fingerprint: str
    definition: Mapping[str, Any] | None = None


class Pinning:
    """The fingerprint of every tool as it was first seen.

    Args:
        path: the JSON file; made on the first write.
        mode: `off` looks at nothing; `warn` logs a change and takes the new definition as pinned;
            `block` withholds the tool until `approve` is called for it.
        project: whose definitions they are, for people who look into the file.
        before: a file to take them from where there is none yet.

    Raises:
        ConfigError: the file is there and is not what this class writes.
    """

    def __init__(
        self, path: Path, mode: PinningMode, *, project: str = "", before: Path | None = None
    ) -> None:
        self.mode: PinningMode = mode
        self._path = path
        self._project = project
        self._pins: dict[str, _Pin] = {}
        if mode != "off":
            self._pins = _read(path if path.exists() or before is None else before)
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
            if pinned is not None and pinned.fingerprint == tool.fingerprint:
                if pinned.definition is None:
                    self._pins[key] = _Pin(tool.fingerprint, tool.definition)
                    dirty = True
                continue
            if pinned is None:
                self._pins[key] = _Pin(tool.fingerprint, tool.definition)
                dirty = True
                continue
            change = Changed(
                name, pinned.fingerprint, tool.fingerprint, pinned.definition, tool.definition, key
            )
            self._tell(change)
            if self.mode == "block":
                withheld[name] = change
            else:
                self._pins[key] = _Pin(tool.fingerprint, tool.definition)
                dirty = True
        self.withheld = withheld
        if dirty:
            self._write()
        if not withheld:
            return catalog
        kept = {name: tool for name, tool in catalog.tools.items() if name not in withheld}
        return replace(catalog, tools=kept)

    def withholds(self, tool: ToolRecord) -> bool:
        """Whether a tool that only some callers have is withheld: where another one is pinned."""
        if self.mode != "block":
            return False
        pinned = self._pins.get(_key(tool))
        return pinned is not None and pinned.fingerprint != tool.fingerprint

    def approve(self, tool: ToolRecord) -> None:
        """Take a tool's present definition as the pinned one."""
        self._pins[_key(tool)] = _Pin(tool.fingerprint, tool.definition)
        self.withheld.pop(tool.name, None)
        self._write()

    def take(self, change: Changed) -> None:
        """Take the definition of one of `withheld` as the pinned one; `admit` lets it in."""
        self._pins[change.key] = _Pin(change.now, change.after)
        self.withheld.pop(change.name, None)
        self._write()

    def _write(self) -> None:
        """One line for each tool: a difference of two files shows which ones differ."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f'{{"version": 2, "project": {json.dumps(self._project)}, "tools": {{')
            for place, (key, pin) in enumerate(sorted(self._pins.items())):
                held = {"fingerprint": pin.fingerprint, "definition": pin.definition}
                file.write(f"{',' if place else ''}\n{json.dumps(key)}: {json.dumps(held)}")
            file.write("\n}}\n")
        Path(name).replace(self._path)

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


def _lines(definition: Mapping[str, Any]) -> list[str]:
    text = json.dumps(definition, indent=2, ensure_ascii=False, sort_keys=True)
    return ["".join(map(_visible, line)) for line in text.split("\n")]


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return f"\\u{{{ord(character):x}}}"


def _read(path: Path) -> dict[str, _Pin]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        found: object = json.loads(text)
        pins = cast("Mapping[str, Any]", found)["tools"]
        return {str(key): _pin(value) for key, value in cast("dict[Any, Any]", pins).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} is not a file of pinned definitions ({error}); "
            "move it away to pin every tool anew",
            path="security.pinning",
        ) from None


def _pin(value: Any) -> _Pin:
    if isinstance(value, str):
        return _Pin(value)
    return _Pin(str(value["fingerprint"]), value.get("definition"))
