"""Builds the audit from `observability.audit`.

Owns: choosing its sink. Never writes a record itself.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from armory.audit.settings import AuditSettings
from armory.config import Loaded
from armory.config.base import values_for
from armory.errors import BackendError, ConfigError

if TYPE_CHECKING:
    from armory.audit.reading import RecordFilter
    from armory.audit.sinks import Sink
    from armory.audit.writer import AuditLog


def audit_settings(loaded: Loaded) -> AuditSettings:
    """The settings of `observability.audit`."""
    return AuditSettings(**values_for(AuditSettings, loaded.config.observability.audit))


def audit_file(loaded: Loaded) -> Path | None:
    """The file that the audit is written to; None where it goes elsewhere."""
    to = loaded.config.observability.audit.to
    if to in (None, "stdout", "database"):
        return None
    return loaded.folder / os.path.expanduser(to)


AuditReader = Callable[["RecordFilter", int], Awaitable[list[dict[str, object]]]]


def audit_reader(loaded: Loaded) -> AuditReader | None:
    """A reader of the audit, with a thread and connections of its own; None where no readable audit
    is kept.
    """
    to, file = loaded.config.observability.audit.to, audit_file(loaded)
    if to != "database" and file is None:
        return None
    url = loaded.config.storage.url if to == "database" else None
    files = [] if file is None else [file]

    async def read(wanted: RecordFilter, limit: int) -> list[dict[str, object]]:
        from armory.audit.reading import records

        return await asyncio.to_thread(
            lambda: asyncio.run(records(url, files, wanted, limit, in_use=True))
        )

    return read


async def open_audit(loaded: Loaded, stack: AsyncExitStack) -> AuditLog | None:
    """The audit, written until `stack` unwinds; None where none is configured.

    Raises:
        ConfigError: it cannot be written: nothing that has to be recorded may happen then.
    """
    settings = audit_settings(loaded)
    if settings.to is None:
        return None
    from armory.audit.threaded import ThreadedSink
    from armory.audit.writer import opened_audit

    try:
        sink = ThreadedSink(_sink(loaded, settings))
        return await stack.enter_async_context(opened_audit(sink, settings))
    except BackendError as error:
        raise ConfigError(error.message, path="observability.audit.to") from None


def _sink(loaded: Loaded, settings: AuditSettings) -> Sink:
    from armory.audit.sinks import DatabaseSink, FileSink

    if settings.to == "database":
        from armory.storage.database import Database

        return DatabaseSink(Database(loaded.config.storage.url), settings.retention_days)
    return FileSink(audit_file(loaded))
