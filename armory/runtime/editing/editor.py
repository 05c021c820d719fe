"""Editing the configuration file of a running gateway.

Owns: `web.rest.live.config_file.ConfigurationFile` over masking, checking and the file. What is
written is put in force by whoever watches the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from armory.config import ConfigProblems, Loaded
from armory.config.schema import config_schema
from armory.errors import ConfigError
from armory.runtime.checking import checked
from armory.runtime.editing.file import replace, version_of, why_read_only
from armory.runtime.editing.masking import Masked, Restored
from armory.runtime.editing.message_redaction import redacted_message, values_in
from armory.runtime.editing.tag_key import TagKey
from armory.runtime.reloading import difference
from armory.runtime.running import Runtime
from armory.web.rest.live.config_file import NotWritable, Problems, Refused, Stale

_OFF = "server.config_editing is off: the file is changed where it lies"
_WHOLE = Restored("", (), ())


@dataclass(slots=True, eq=False)
class Editor:
    """Edits the configuration file that a runtime was started from.

    Attributes:
        runtime: goes by the file.
        path: the file.
        editing: `server.config_editing` as it was when the gateway began; it takes a restart.
        key: of tags.
    """

    runtime: Runtime
    path: Path
    editing: bool
    key: TagKey
    _saving: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def show(self) -> Mapping[str, Any]:
        """As `ConfigurationFile.show`."""
        return await asyncio.to_thread(self._show, await self.key.current())

    async def check(self, text: str, tag: str, effects: bool) -> Mapping[str, Any]:
        """As `ConfigurationFile.check`."""
        try:
            key = await self.key.current()
            whole, loaded = await asyncio.to_thread(self._checked, text, tag, key)
            done = await self._effects(whole, loaded) if effects else None
        except Refused as error:
            return {"problems": error.found, "effects": None}
        return {"problems": [], "effects": done}

    async def save(self, text: str, tag: str) -> Mapping[str, Any]:
        """As `ConfigurationFile.save`."""
        if not self.editing:
            raise NotWritable(_OFF)
        async with self._saving:
            key = await self.key.current()
            whole, loaded = await asyncio.to_thread(self._checked, text, tag, key)
            effects = await self._effects(whole, loaded)
            written = await asyncio.to_thread(replace, self.path, whole.text, tag, key)
        return {"tag": written.tag, "effects": effects}

    async def schema(self) -> Mapping[str, Any]:
        """As `ConfigurationFile.schema`."""
        return await asyncio.to_thread(_schema)

    def _masked(self, text: str) -> Masked:
        """The text with its secrets masked; for callers that may not edit it, with all URL
        parameters masked as well.
        """
        return Masked(text, parameters=not self.editing)

    def _show(self, key: bytes) -> Mapping[str, Any]:
        version = version_of(self.path, key)
        text, node, problems, in_force, due = None, None, [], False, list[str]()
        masked = self._masked(version.text)
        try:
            text = masked.shown
        except ConfigError:
            whole = _WHOLE
        else:
            whole, node = masked.unedited, masked.node
        try:
            loaded = checked(self.path, version.text, node)
            read, last = self._overridden(loaded).config, self.runtime.loaded.config
            due = difference(self.runtime.started, last, read).needs_restart
            in_force = read == last and not due
        except ConfigError as error:
            problems = self._problems(error, whole)
        reason = why_read_only(self.path) if self.editing else _OFF
        return {
            "path": str(self.path),
            "text": text,
            "tag": version.tag,
            "writable": reason is None and text is not None,
            "reason": reason,
            "in_force": in_force,
            "needs_restart": due,
            "problems": problems,
        }

    def _checked(self, text: str, tag: str, key: bytes) -> tuple[Restored, Loaded]:
        version = version_of(self.path, key)
        if version.tag != tag:
            raise Stale("the file has changed since it was read; read it again")
        masked = self._masked(version.text)
        try:
            whole = masked.restored(text)
        except ConfigError as error:
            raise Refused(self._problems(error, _WHOLE)) from None
        try:
            return whole, checked(self.path, whole.text)
        except ConfigError as error:
            raise Refused(self._problems(error, whole)) from None

    async def _effects(self, whole: Restored, loaded: Loaded) -> Mapping[str, Any]:
        try:
            done = await self.runtime.reload(self._overridden(loaded), dry_run=True)
        except ConfigError as error:
            raise Refused(self._problems(error, whole)) from None
        return asdict(done)

    def _overridden(self, loaded: Loaded) -> Loaded:
        return self.runtime.rereading.overridden(loaded)

    def _problems(self, error: ConfigError, whole: Restored) -> Problems:
        def said(message: str) -> str:
            return redacted_message(message, whole.hidden, values_in(self.path, whole.text))

        if not isinstance(error, ConfigProblems):
            message = error.message.removeprefix(f"{error.path}: ")
            return [{"path": error.path, "line": None, "message": said(message)}]
        return [
            {
                "path": found.path,
                "line": whole.shown_line(found.line),
                "message": said(found.message),
            }
            for found in error.problems
        ]


@cache
def _schema() -> Mapping[str, Any]:
    return config_schema()
