"""The settings of OpenTelemetry, as plain values.

Owns: `OtelSettings` and its defaults. Never imports anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Enabled = Literal["auto"] | bool


@dataclass(frozen=True, slots=True)
class OtelSettings:
    """Whether telemetry is sent, and what it contains.

    Attributes:
        enabled: `auto`: when `OTEL_EXPORTER_OTLP_ENDPOINT`, or that of a signal, is set.
        queries: whether spans of retrieval carry the text that was searched for.
    """

    enabled: Enabled = "auto"
    queries: bool = False
