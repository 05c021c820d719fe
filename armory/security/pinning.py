"""Tool pinning: detects changed definitions, and withholds them where configured.

Owns: what is pinned, and what follows from a difference. Never imports upstreams or the
gateway.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from armory.domain.catalog import Catalog
from armory.domain.tool import ToolRecord
from armory.errors import ConfigError
from armory.files import stamp
from armory.logger import Logger
from armory.security.differences import difference
from armory.security.pin_file import Pin, Pins, Stored, read, write
from armory.security.settings import PinningMode
from armory.threads import copied, let_go

_log = Logger(__name__)
GONE = 1_000
"""Definitions of one upstream that are kept although it no longer lists them, the earliest pinned
ones. So a tool that goes and comes back changed is noticed, and an upstream that invents new names
without end cannot fill the memory."""
REMOVED_DAYS = 180
"""How long the definitions of an upstream are kept after it left the configuration, for the same
reason."""
REMOVED = 500
"""Removed upstreams whose definitions are kept, those that were removed last: where something
writes the configuration, each may have a name of its own."""
_LOGGED = 20
"""Changes of one upstream that are logged one by one; of more only the number is."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A tool whose definition differs from the pinned one.

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
        """The changes, as lines of a unified diff of the definitions' JSON.

        Invisible characters are escaped, since they are used to hide text.
        """
        if self.before is None or self.after is None:
            return []
        return difference(self.before, self.after)


class Pinning:
    """The fingerprint of every tool as first seen. A lock serializes threads: of two tools approved
    at the same time, each would otherwise be stored without the other.

    Args:
        path: the JSON file; created by the first write.
        mode: `off` checks nothing; `warn` logs a change and pins the new definition; `block`
            withholds the tool until `approve` is called for it.
        project: the project's name, for people who look into the file.
        before: an earlier file, which is read while `path` does not exist.
        configured: keys of the configured upstreams; None: unknown, so none counts as removed.
        today: the date; None: the present one.

    Raises:
        ConfigError: the file exists and is not in the form that this class writes.
    """

    def __init__(
        self,
        path: Path,
        mode: PinningMode,
        *,
        project: str = "",
        before: Path | None = None,
        configured: Collection[str] | None = None,
        today: date | None = None,
    ) -> None:
        self.mode: PinningMode = mode
        self._turn = threading.RLock()
        self._path = path
        self._project = project
        self._before = before
        self._pins: Pins = {}
        self._removed: dict[str, str] = {}  # since which day upstreams are configured no more
        # what differs from the file because of this
        self._unstored: dict[str, dict[str, None]] = {}
        self._forgotten: set[str] = set()  # upstreams that the file still has
        self._stamp = stamp(path)
        if mode != "off":
            self._pins, self._removed = read(path if path.exists() or before is None else before)
        self._unsaved = configured is not None and self._forget_removed(
            configured, today or datetime.now(UTC).date()
        )
        self._logged: dict[str, str] = {}
        self.withheld: dict[str, Changed] = {}

    def admit(self, catalog: Catalog) -> Catalog:
        """The snapshot without withheld tools; new tools are pinned.

        Raises:
            OSError: new pins cannot be stored. They are kept in memory all the same: `judged` gives
                the result that this would have, and the next `store` writes them.
        """
        with self._turn:
            kept = self.judged(catalog)
            self.store()
        return kept

    def store(self) -> None:
        """Write pending changes to the file.

        Raises:
            OSError: the file cannot be written.
        """
        with self._turn:
            if self._unsaved and self.mode != "off":
                self._write()

    def judged(self, catalog: Catalog) -> Catalog:
        """Like `admit`; nothing is stored."""
        if self.mode == "off":
            return catalog
        with self._turn:
            return self._judged(catalog)

    def _judged(self, catalog: Catalog) -> Catalog:
        changes: list[Changed] = []
        for name, tool in catalog.tools.items():
            pinned = self._pins.get(tool.server, {}).get(tool.original_name)
            differs = pinned is not None and pinned.fingerprint != tool.fingerprint
            if pinned is not None and differs:
                changes.append(_change(name, tool, pinned))
            if pinned is None or (self.mode != "block" if differs else pinned.definition is None):
                self._pin(tool.server, tool.original_name, tool.fingerprint, tool.definition)
        self._log_changes(changes)
        self.withheld = {change.name: change for change in changes if self.mode == "block"}
        self._unsaved |= self._forget_gone(catalog)
        if not self.withheld:
            return catalog
        kept = {name: tool for name, tool in catalog.tools.items() if name not in self.withheld}
        return replace(catalog, tools=kept)

    def _forget_gone(self, catalog: Catalog) -> bool:
        """Forget tools that upstreams no longer list, except a few; returns whether any was
        forgotten.

        An upstream that has not listed yet, or is no longer configured, keeps all of its own.
        """
        counts = Counter(tool.server for tool in catalog.tools.values())
        forgotten = False
        for server in catalog.servers:
            pins = self._pins.get(server, {})
            if len(pins) - counts[server] > GONE:
                tools = catalog.tools.values()
                names = {tool.original_name for tool in tools if tool.server == server}
                gone = [name for name in pins if name not in names][GONE:]
                unstored = self._unstored.get(server, {})
                for name in gone:
                    del pins[name]
                    unstored.pop(name, None)
                self._pins[server] = copied(pins)  # a table does not shrink by itself
                forgotten = True
                _log.info("pins_forgotten", upstream=server, tools=len(gone))
        return forgotten

    def _forget_removed(self, configured: Collection[str], today: date) -> bool:
        """Record which upstreams were removed, and forget those removed long ago, or before many
        others; returns whether anything changed.
        """
        before, day = self._removed, today.isoformat()
        removed = {key: before.get(key, day) for key in self._pins if key not in configured}
        oldest = (today - timedelta(days=REMOVED_DAYS)).isoformat()
        kept = [(key, since) for key, since in removed.items() if since >= oldest]
        self._removed = dict(sorted(kept, key=lambda item: item[1])[-REMOVED:])
        for key in removed.keys() - self._removed.keys():
            self._forgotten.add(key)
            self._unstored.pop(key, None)
            _log.info("pins_forgotten", upstream=key, tools=len(self._pins.pop(key)))
        return self._removed != before

    def reopen(self, mode: PinningMode, configured: Collection[str] | None) -> None:
        """Use another mode and other upstreams, and read the file again if it has changed: another
        process may have approved something. Pending changes are kept.

        Raises:
            ConfigError: as when it was made; all is as it was then.
        """
        with self._turn:  # what a thread takes meanwhile is in the file before, or comes after
            if self._is_known(mode):
                if configured is not None:
                    self._unsaved |= self._forget_removed(configured, datetime.now(UTC).date())
            else:
                self._adopt(Pinning(self._path, mode, before=self._before, configured=configured))
            self.mode, self._logged = mode, {}
            if mode != "block":
                self.withheld = {}

    def check(self, mode: PinningMode) -> None:
        """Check whether the file can be read again.

        Raises:
            ConfigError: as of `reopen` with this mode.
        """
        if not self._is_known(mode):
            Pinning(self._path, mode, before=self._before)

    def _is_known(self, mode: PinningMode) -> bool:
        """Whether what the file holds is here already. One of 15,000 tools takes 0.3 s to read."""
        same = self._stamp is not None and stamp(self._path) == self._stamp
        return same and "off" not in (mode, self.mode)

    def _adopt(self, again: Pinning) -> None:
        if self._unsaved and "off" not in (again.mode, self.mode):
            for server, pins in self._pins.items():
                again._pins[server] = pins | again._pins.get(server, {})
            again._unsaved = True
        self._pins, self._removed, self._stamp = again._pins, again._removed, again._stamp
        self._unsaved, self._forgotten = again._unsaved, again._forgotten

    def withholds(self, tool: ToolRecord) -> bool:
        """Whether a tool that only some callers have is withheld, because another definition is
        pinned.
        """
        if self.mode != "block":
            return False
        pinned = self._pins.get(tool.server, {}).get(tool.original_name)
        return pinned is not None and pinned.fingerprint != tool.fingerprint

    def approve(self, *tools: ToolRecord) -> None:
        """Pin the present definitions of these tools, in one go: each time, the file is written
        anew.
        """
        with self._turn:
            for tool in tools:
                self._pin(tool.server, tool.original_name, tool.fingerprint, tool.definition)
                self.withheld.pop(tool.name, None)
            self.store()

    def take(self, change: Changed) -> None:
        """Pin the definition of one of `withheld`; `admit` then lets it in."""
        server, _, original = change.key.partition("/")
        with self._turn:
            self._pin(server, original, change.now, change.after)
            self.withheld.pop(change.name, None)
            self._write()

    def _pin(
        self, server: str, original: str, fingerprint: str, definition: Mapping[str, Any] | None
    ) -> None:
        self._pins.setdefault(server, {})[original] = Pin(fingerprint, definition)
        self._forgotten.discard(server)
        self._unstored.setdefault(server, {})[original] = None
        self._unsaved = True

    def _write(self) -> None:
        self._unsaved = True  # until it is: a disk that is full may have room the next time
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if stamp(self._path) != self._stamp:
            self._take_over()
        write(self._path, self._project, Stored(self._pins, self._removed))
        self._unsaved, self._stamp = False, stamp(self._path)
        self._forgotten.clear()
        stored, self._unstored = self._unstored, {}
        for names in stored.values():
            let_go(names)

    def _take_over(self) -> None:
        """Read what another process has stored meanwhile, such as an approval by a command."""
        with suppress(ConfigError, OSError):
            for server, pins in read(self._path).pins.items():
                if server in self._forgotten:
                    continue
                mine = self._pins.setdefault(server, {})
                own = self._unstored.get(server, {})
                theirs = {original: pin for original, pin in pins.items() if original not in own}
                mine.update(theirs)

    def _log_changes(self, changes: Sequence[Changed]) -> None:
        """Log the changes, each state of a definition once; for many, only their number."""
        before, self._logged = self._logged, {change.name: change.now for change in changes}
        counts: Counter[str] = Counter()
        for change in changes:
            if before.get(change.name) == change.now:
                continue
            counts[server := change.key.partition("/")[0]] += 1
            if counts[server] <= _LOGGED:
                _log.warning(
                    "tool_definition_changed",
                    tool=change.name,
                    pinned=change.pinned[:12],
                    now=change.now[:12],
                    withheld=self.mode == "block",
                )
        for server, count in counts.items():
            if count > _LOGGED:
                _log.warning("tool_definitions_changed", upstream=server, tools=count)


def _change(name: str, tool: ToolRecord, pinned: Pin) -> Changed:
    key = f"{tool.server}/{tool.original_name}"
    now, before = tool.fingerprint, pinned.fingerprint
    return Changed(name, before, now, pinned.definition, tool.definition, key)
