"""The audit that the configuration asks for.

Owns: choosing its sink. Never writes a record itself.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from armory.audit.settings import AuditSettings
from armory.config import Loaded
from armory.config.base import values_for
from armory.errors import BackendError, ConfigError

if TYPE_CHECKING:
    from armory.audit.sinks import Sink
    from armory.audit.writer import AuditLog


def audit_settings(loaded: Loaded) -> AuditSettings:
    """What `observability.audit` says."""
    return AuditSettings(**values_for(AuditSettings, loaded.config.observability.audit))


def audit_file(loaded: Loaded) -> Path | None:
    """The file that the audit is written to; None where it is none."""
    to = loaded.config.observability.audit.to
    if to in (None, "stdout", "database"):
        return None
    return loaded.folder / Path(to).expanduser()


async def open_audit(loaded: Loaded, stack: AsyncExitStack) -> AuditLog | None:
    """The audit, written until `stack` unwinds; None where none is asked for.

    Raises:
        ConfigError: it cannot be written: nothing that has to be recorded may happen then.
    """
    settings = audit_settings(loaded)
    if settings.to is None:
        return None
    from armory.audit.writer import opened_audit

    try:
        return await stack.enter_async_context(opened_audit(_sink(loaded, settings), settings))
    except BackendError as error:
        raise ConfigError(error.message, path="observability.audit.to") from None


def _sink(loaded: Loaded, settings: AuditSettings) -> Sink:
    from armory.audit.sinks import DatabaseSink, FileSink

    if settings.to == "database":
        from armory.storage.database import Database

        return DatabaseSink(Database(loaded.config.storage.url), settings.retention_days)
    return FileSink(audit_file(loaded))
