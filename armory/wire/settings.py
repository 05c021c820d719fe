"""The settings of both transports to clients, as plain values.

Owns: `HttpSettings`, `StdioSettings` and their defaults. Never imports a transport: the
configuration is read without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from armory.protocol.bodies import BATCH_BYTES, BATCH_ITEMS

JSON_DEPTH = 256
PARKED = 1_000
PARKED_TIMEOUT_S = 300.0
SESSIONS = 10_000
SESSION_IDLE_S = 1_800.0


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The settings of the HTTP edge.

    Attributes:
        host: the bind address (decides what is loopback).
        base_path: prefix of every route, without a trailing slash.
        allowed_hosts, allowed_origins, trusted_proxies: see `wire.http.host_checks.HostChecks`.
        body_bytes: largest request body.
        json_depth: deepest nesting of a message.
        batch_items: most messages in a batch.
        batch_answer_bytes: most bytes of what a batch is answered.
        sessions: most legacy sessions at once.
        streams: most open event streams at once.
        parked: most calls that wait for a modern client's input at once.
        sessions_per_principal, streams_per_principal, parked_per_principal: the same for one
            principal.
        parked_timeout_s: how long they wait, in seconds; then they are cancelled.
        session_idle_s: seconds after which an unused session ends.
        pages: whether people are sent to pages of the gateway (`/connect`).
    """

    host: str = "127.0.0.1"
    base_path: str = ""
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    trusted_proxies: Sequence[str] = ()
    body_bytes: int = 4 << 20
    json_depth: int = JSON_DEPTH
    batch_items: int = BATCH_ITEMS
    batch_answer_bytes: int = BATCH_BYTES
    sessions: int = SESSIONS
    sessions_per_principal: int = 5_000
    streams: int = 10_000
    streams_per_principal: int = 5_000
    parked: int = PARKED
    parked_per_principal: int = 500
    parked_timeout_s: float = PARKED_TIMEOUT_S
    session_idle_s: float = SESSION_IDLE_S
    pages: bool = False


@dataclass(frozen=True, slots=True)
class StdioSettings:
    """The settings of the stdio edge.

    Attributes:
        line_bytes: longest message; a longer one is answered with an error and skipped.
        json_depth: deepest nesting of a message.
        batch_items: most messages in a batch.
        batch_answer_bytes: most bytes of what a batch is answered.
        drain_timeout_s: how long calls in flight may take after the input has ended, in seconds.
        parked_timeout_s: how long a call waits for the client's answers, in seconds.
    """

    line_bytes: int = 16 << 20
    json_depth: int = JSON_DEPTH
    batch_items: int = BATCH_ITEMS
    batch_answer_bytes: int = BATCH_BYTES
    drain_timeout_s: float = 30.0
    parked_timeout_s: float = PARKED_TIMEOUT_S
