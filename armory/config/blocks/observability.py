"""The block `observability`: logs, metrics, traces, the audit, queries and calls.

Owns: `ObservabilityConfig`. Of the rooms it imports settings only, for their defaults.
"""

from __future__ import annotations

from pydantic import Field

from armory.accounts.settings import AccountSettings
from armory.audit.settings import Arguments, AuditSettings, Results
from armory.config.base import (
    Block,
    Count,
    OptionalText,
    Texts,
    defaults_of,
)
from armory.observability.settings import ActivitySettings, LogFormat, LogLevel, LogSettings
from armory.telemetry.settings import Enabled, OtelSettings

_ACCOUNTS = defaults_of(AccountSettings)
_LOGS = defaults_of(LogSettings)
_OTEL = defaults_of(OtelSettings)
_AUDIT = defaults_of(AuditSettings)
_ACTIVITY = defaults_of(ActivitySettings)


class QueryLogConfig(Block):
    """The log of queries, for statistics and tuning."""

    enabled: bool = _ACCOUNTS.query_log
    """Whether queries are recorded."""
    retention_days: Count = _ACCOUNTS.retention_days
    """Days until a record is deleted."""
    redact: Texts = Field(default_factory=list[str])
    """Regular expressions; what they match is replaced before it is stored."""


class OtelConfig(Block):
    """OpenTelemetry: spans and metrics over OTLP, as its standard environment variables say."""

    enabled: Enabled = _OTEL.enabled
    """`auto`: when `OTEL_EXPORTER_OTLP_ENDPOINT`, or that of a signal, is set."""
    queries: bool = _OTEL.queries
    """Whether spans of retrieval carry the text that was searched for."""


class AuditConfig(Block):
    """The append-only record of who asked what."""

    to: OptionalText = _AUDIT.to
    """`stdout`, `database`, or the path of a file (relative ones count from this file); null:
    nowhere."""
    arguments: Arguments = _AUDIT.arguments
    """What is kept of a call's arguments: `"off"`: nothing; `hash`: their SHA-256; `full`: all."""
    results: Results = _AUDIT.results
    """What is kept of the results of calls, prompts and resources: `"off"`: nothing; `hash`: the
    SHA-256 of their JSON as the upstream sent it (over REST, of the answer's body)."""
    retention_days: Count = _AUDIT.retention_days
    """Days after which rows in the database are deleted; files are left to `logrotate`."""


class ActivityConfig(Block):
    """The latest calls as the console and `GET /v1/activity` show them, kept in memory."""

    arguments: bool = _ACTIVITY.arguments
    """Whether the arguments of calls are kept, redacted and cut at 2,000 characters."""
    results: bool = _ACTIVITY.results
    """Whether the results of calls are kept, redacted and cut at 2,000 characters."""


class ObservabilityConfig(Block):
    """Logs, metrics, traces."""

    log_level: LogLevel = _LOGS.log_level
    """Least important events that are logged."""
    log_format: LogFormat = _LOGS.log_format
    """`auto`: readable on a terminal, JSON otherwise."""
    metrics: bool = True
    """Whether `/metrics` is served."""
    otel: OtelConfig = Field(default_factory=OtelConfig)
    """OpenTelemetry."""
    audit: AuditConfig = Field(default_factory=AuditConfig)
    """The audit."""
    query_log: QueryLogConfig = Field(default_factory=QueryLogConfig)
    """The log of queries."""
    activity: ActivityConfig = Field(default_factory=ActivityConfig)
    """What is kept of the latest calls."""
