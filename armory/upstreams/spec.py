"""The settings of one upstream, as plain values.

Owns: `UpstreamSpec` and the `${principal}` template. Never imports configuration or a transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import urlsplit

from armory.domain.principal import Principal
from armory.errors import ConfigError
from armory.protocol.versions import ALL_VERSIONS
from armory.upstreams.launchers import launcher_of
from armory.upstreams.oauth.grants import Grant, is_personal

PROTOCOLS = ("auto", *ALL_VERSIONS)

Transport = Literal["auto", "stdio", "streamable-http", "sse"]
Isolation = Literal["shared", "principal", "session"]
Whose = Literal["auto", "shared", "principal"]

_PRINCIPAL = "${principal}"
INFLOW_BYTES = 128 * 1024 * 1024
"""Default limit of unfinished answers, of all upstreams together."""
OUTFLOW_BYTES = 128 * 1024 * 1024
"""Default limit of large calls that are not answered yet, of all upstreams together."""
CONCURRENT_STARTS = 8
"""Processes that start at a time, of all upstreams together."""
LIST_ENTRIES = 250_000
"""Entries of one list of an upstream."""
LIST_BYTES = 256 * 1024 * 1024
"""Memory for all lists of an upstream: as much as some 150,000 published tools take."""


@dataclass(frozen=True, slots=True)
class UpstreamSpec:
    """The settings of one upstream: how to reach it, and its limits.

    One of `command` (a stdio server), `url` (Streamable HTTP or HTTP+SSE), `openapi` (an HTTP
    API) and `skills` (a folder) is set. `${principal}` in `args`, `env`, `headers` and `cwd`
    becomes a file-safe form of the caller.

    Attributes:
        key: name in the configuration, lower-case kebab-case.
        command, args, env, cwd: the process; `env` comes on top of what it inherits.
        inherit_env: names or glob patterns of variables that it inherits beside the usual ones.
        url: http(s) URL of the endpoint.
        openapi: URL or path of an OpenAPI description, whose operations are the tools.
        base_url: where that API is; None: where the description says.
        include, exclude: patterns of its operations' names, or of `METHOD /path`; none: all.
        skills: path of a folder, below which each folder with a SKILL.md is a skill.
        groups: whether its own groups are fetched.
        transport: `auto` tries Streamable HTTP, then HTTP+SSE; with `command` it means stdio.
        headers: sent with every HTTP request.
        auth: how to get the access token that is sent as well; None: no token.
        ca_file: PEM file of additional certificate authorities.
        verify: whether the server's certificate is checked.
        proxy: URL of an HTTP proxy.
        protocol: `auto`, or the one revision to speak.
        isolation: who shares a session or process.
        lists: whose lists a caller sees: `shared`, the gateway's own; `principal`, those that the
            caller's own session is given; `auto`: the latter where `${principal}` occurs and the
            upstream says that they are private.
        idle_timeout_s: an unused session is closed after so many seconds.
        connect_timeout_s: deadline of each step of connecting.
        start_timeout_s: so long the start of a launcher (npx, uvx ...) may take until its server
            answers; one that still does something then is waited for on and on.
        patient: whether that goes for a program that is no known launcher, too.
        call_timeout_s: deadline of one call, time spent waiting for the client not counted.
        max_concurrency: calls in flight at once, over all sessions.
        max_queue: calls that may wait for their turn; more are shed.
        max_sessions: sessions (processes) at once, the gateway's own included; with 1, callers
            get only those that keep nothing between requests.
        breaker_failures: so many failures in a row open the breaker.
        breaker_open_s: seconds until an open breaker lets one call try again.
        message_bytes: largest line, event or JSON body that is accepted from the upstream.
        list_entries: entries of one list at most.
        list_bytes: memory that all lists together may take at most, as estimated.
        health_interval_s: seconds between health probes of an unused session.
    """

    key: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    inherit_env: tuple[str, ...] = ()
    url: str | None = None
    openapi: str | None = None
    base_url: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    skills: str | None = None
    transport: Transport = "auto"
    groups: bool = False
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    auth: Grant | None = None
    ca_file: str | None = None
    verify: bool = True
    proxy: str | None = None
    protocol: str = "auto"
    isolation: Isolation = "principal"
    lists: Whose = "auto"
    idle_timeout_s: float = 900.0
    connect_timeout_s: float = 15.0
    start_timeout_s: float = 300.0
    patient: bool = False
    call_timeout_s: float = 120.0
    max_concurrency: int = 64
    max_queue: int = 256
    max_sessions: int = 100
    breaker_failures: int = 5
    breaker_open_s: float = 30.0
    message_bytes: int = 16 * 1024 * 1024
    list_entries: int = LIST_ENTRIES
    list_bytes: int = LIST_BYTES
    health_interval_s: float = 60.0

    def __post_init__(self) -> None:
        where = f"upstreams.{self.key}"
        if [self.command, self.url, self.openapi, self.skills].count(None) != 3:
            raise ConfigError(
                "give exactly one of 'command', 'url', 'openapi' and 'skills'", path=where
            )
        self._check_openapi(where)
        if self.command is None and self.transport == "stdio":
            raise ConfigError("transport 'stdio' needs a 'command'", path=f"{where}.transport")
        if self.command is not None and self.transport not in ("auto", "stdio"):
            raise ConfigError(
                f"transport {self.transport!r} needs a 'url', not a 'command'",
                path=f"{where}.transport",
            )
        if self.auth is not None:
            self._check_auth(self.auth, f"{where}.auth")
        if self.protocol not in PROTOCOLS:
            raise ConfigError(
                f"unknown revision {self.protocol!r}; known: {', '.join(PROTOCOLS)}",
                path=f"{where}.protocol",
            )
        if self.templated and self.isolation == "shared":
            raise ConfigError(
                "${principal} needs isolation 'principal' or 'session', not 'shared'",
                path=f"{where}.isolation",
            )
        if self.lists == "principal" and self.isolation == "shared":
            raise ConfigError(
                "lists 'principal' needs isolation 'principal' or 'session', not 'shared'",
                path=f"{where}.lists",
            )

        if self.max_sessions < 2 and (self.command is not None or self.transport == "sse"):
            raise ConfigError(
                "one session is the gateway's own, so 1 leaves none to callers; expected 2 or more",
                path=f"{where}.max_sessions",
            )

    def _check_openapi(self, where: str) -> None:
        if self.openapi is None:
            for name in ("base_url", "include", "exclude"):
                if getattr(self, name):
                    raise ConfigError("it belongs to 'openapi'", path=f"{where}.{name}")
        elif self.auth is not None and self.base_url is None:
            raise ConfigError(
                "give it where 'auth' is set: a token is for one place", path=f"{where}.base_url"
            )

    def _check_auth(self, auth: Grant, where: str) -> None:
        if self.command is not None:
            raise ConfigError("a server with a 'command' takes no access token", path=where)
        if self.skills is not None:
            raise ConfigError("a folder of skills takes no access token", path=where)
        if any(name.lower() == "authorization" for name in self.headers):
            raise ConfigError(
                "the access token goes into the header Authorization, which 'headers' sets too",
                path=where,
            )
        if is_personal(auth) and self.isolation == "shared":
            raise ConfigError(
                "everybody's own account needs isolation 'principal' or 'session', not 'shared'",
                path=f"upstreams.{self.key}.isolation",
            )
        if is_personal(auth) and self.key == "callback":
            raise ConfigError(
                "/connect/callback is the gateway's own; give the upstream another name",
                path=f"upstreams.{self.key}",
            )
        auth.check(where)

    @property
    def is_stdio(self) -> bool:
        """Whether the upstream is a process."""
        return self.command is not None

    @property
    def served_here(self) -> bool:
        """Whether the gateway answers by itself, without an MCP server."""
        return self.openapi is not None or self.skills is not None

    @property
    def address(self) -> tuple[str | None, int | None]:
        """(host, port) of its URL; None for both where it has none."""
        url = self.url
        if self.openapi is not None:
            url = self.base_url or (self.openapi if "://" in self.openapi else None)
        if url is None:
            return None, None
        parts = urlsplit(url)
        return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def launcher(self) -> str | None:
        """The launcher that may install the server before it starts it; None: there is none."""
        return None if self.command is None else launcher_of(self.command, self.args)

    @property
    def starts_slowly(self) -> bool:
        """Whether a start may take `start_timeout_s`."""
        return self.patient or self.launcher is not None

    @property
    def templated(self) -> bool:
        """Whether `${principal}` occurs anywhere."""
        texts = (*self.args, *self.env.values(), *self.headers.values(), self.cwd or "")
        return any(_PRINCIPAL in text for text in texts)

    def filled_for(self, principal: Principal) -> UpstreamSpec:
        """A copy of the settings with `${principal}` filled in."""
        if not self.templated:
            return self
        name = principal.file_safe

        def fill(text: str) -> str:
            return text.replace(_PRINCIPAL, name)

        return replace(
            self,
            args=tuple(map(fill, self.args)),
            env={key: fill(value) for key, value in self.env.items()},
            headers={key: fill(value) for key, value in self.headers.items()},
            cwd=None if self.cwd is None else fill(self.cwd),
        )
