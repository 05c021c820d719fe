"""What both transports to clients are configured by, as plain values.

Owns: `StdioSettings`, and the defaults that it shares with `wire.http.settings`. Never imports
anything else: the configuration is read without a transport.
"""

from __future__ import annotations

from dataclasses import dataclass

JSON_DEPTH = 256
PARKED = 1_000
PARKED_TIMEOUT_S = 300.0
SESSIONS = 10_000
SESSION_IDLE_S = 1_800.0


@dataclass(frozen=True, slots=True)
class StdioSettings:
    """How one client is served over standard input and output.

    Attributes:
        line_bytes: longest message; a longer one is answered with an error and skipped.
        json_depth: deepest nesting of a message.
        drain_timeout_s: how long calls in flight may take after the input has ended, in seconds.
        parked_timeout_s: how long a call waits for the client's answers, in seconds.
    """

    line_bytes: int = 16 << 20
    json_depth: int = JSON_DEPTH
    drain_timeout_s: float = 30.0
    parked_timeout_s: float = PARKED_TIMEOUT_S
