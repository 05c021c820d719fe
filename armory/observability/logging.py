"""Logging: one short line for each event on a terminal, JSON elsewhere, never a secret.

Owns: the set-up of structlog. Never imports a room above `domain`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from armory.logger import LEVELS, before_first
from armory.observability.operation import CURRENT
from armory.observability.redaction import redacted_value
from armory.observability.settings import LogSettings, logs_json
from armory.observability.terminal import TerminalRenderer

_NOISY = ("aiohttp.access", "asyncio", "alembic", "httpx", "openai", "qdrant_client")


def configure_logging(settings: LogSettings, *, stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's logging for the whole process.

    Args:
        settings: what is written, and how.
        stream: where to; standard error by default, since standard output belongs to answers.
    """
    out: TextIO = stream or sys.stderr
    number = LEVELS[settings.log_level]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        trace_ids,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        redact,  # last: a traceback may show a secret, too
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(default=str)
        if logs_json(settings, out)
        else TerminalRenderer(colours=out.isatty() and not os.environ.get("NO_COLOR"))
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING if number > logging.DEBUG else logging.INFO)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    before_first(None, number)


def trace_ids(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Structlog processor: add the trace id of the request that is being served."""
    operation = CURRENT.get()
    if operation is not None and operation.trace_id and not operation.over:
        event["trace_id"], event["span_id"] = operation.trace_id, operation.span_id
    return event


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Structlog processor: mask values that have the name or the form of a secret."""
    for key, value in event.items():
        event[key] = redacted_value(key, value)
    return event
