"""Asking a gateway: one that runs at a URL, or one opened here for the length of a command.

Owns: sending one MCP request and reading its answer, the same for both. Never imports a web
framework.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Raw

from armory.cli.output import err, waiting
from armory.config import Loaded
from armory.domain.principal import Principal
from armory.errors import (
    ArmoryError,
    AuthenticationFailed,
    BackendError,
    ConfigError,
    InvalidRequest,
    RateLimited,
    UnknownTool,
    UpstreamOverloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from armory.gateway.requests import ClientRequest
from armory.protocol.codes import TIMED_OUT, UNAVAILABLE
from armory.protocol.jsonrpc import ErrorObject, error_of
from armory.protocol.link import Answer, Call, ClientGone, Owner, Params, Reply
from armory.protocol.meta import SELECTION
from armory.protocol.versions import MODERN_VERSIONS
from armory.runtime import Runtime, open_runtime
from armory.runtime.settings import armory_version
from armory.upstreams.pool import Pool
from armory.upstreams.session.handshake import Incompatible
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_client import HttpFailure
from armory.wire.dispatch import Dispatcher
from armory.wire.interaction.interactions import Interactions

OPERATOR = Principal("operator", method="internal")
_MAX_PAGES = 1_000
_GATEWAY = "gateway"
_KINDS: Mapping[str, type[ArmoryError]] = {
    kind.code: kind
    for kind in (
        InvalidRequest,
        UnknownTool,
        RateLimited,
        UpstreamUnavailable,
        UpstreamTimeout,
        UpstreamOverloaded,
        BackendError,
    )
}
_KIND_OF_CODE: Mapping[int, type[ArmoryError]] = {
    UNAVAILABLE: UpstreamUnavailable,
    TIMED_OUT: UpstreamTimeout,
}
"""For errors without `data.code`."""


class Asker(Protocol):
    """Something that answers MCP requests."""

    async def ask(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The result of one request.

        Raises:
            ArmoryError: it was refused, or nobody could be asked.
        """
        ...


class _Face:
    """A client that can be shown progress and log lines and cannot be asked anything."""

    capabilities: Mapping[str, Any] = {}
    log_level: str | None = None
    progress_token: Raw | None = None

    async def notify(self, method: str, params: Params) -> None:
        if method == "notifications/message":
            err().print(bytes(params.get("data", Raw(b"null"))).decode("utf-8", "replace"))

    async def ask(self, method: str, params: Params) -> Answer:
        raise ClientGone(f"{method} cannot be answered by a command line")


class Here:
    """Asks a runtime of this process."""

    def __init__(self, runtime: Runtime, mode: str | None = None) -> None:
        self._dispatcher = Dispatcher(runtime.gateway, Interactions())
        self._url = {"mode": [mode]} if mode else {}

    async def ask(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """As `Asker.ask`."""
        packed = _packed(params)
        request = ClientRequest(
            principal=OPERATOR,
            client=_Face(),
            era="modern",
            version=MODERN_VERSIONS[-1],
            meta=_packed(meta or {}),
            url=self._url,
        )
        return _result(await self._dispatcher.answer(request, method, packed))


class _There:
    """Asks a gateway that runs elsewhere."""

    def __init__(self, pool: Pool, url: str) -> None:
        self._pool = pool
        self._url = url

    async def ask(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        sent = _packed(params)
        if meta:
            sent["_meta"] = _raw(meta)
        name = params.get("name") or params.get("uri")
        call = Call(method, sent, client=_Face(), name_header=cast("str | None", name))
        try:
            return _result(await self._pool.request(_GATEWAY, Owner(OPERATOR), call))
        except UpstreamUnavailable as error:
            raise _not_reached(self._url, error) from None


@asynccontextmanager
async def asker(
    url: str | None,
    token: str | None,
    load: Callable[[], Loaded],
    *,
    mode: str | None = None,
) -> AsyncGenerator[Asker]:
    """Whoever answers: the gateway at `url`, else the configured upstreams, opened here.

    Args:
        url: a gateway's URL, with or without `/mcp`.
        token: bearer token for it.
        load: gives the configuration, asked for only without `url`.
        mode: as the URL parameter `mode`.
    """
    if url is None:
        async with opened(load()) as runtime:
            yield Here(runtime, mode)
        return
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    spec = UpstreamSpec(key=_GATEWAY, url=endpoint_url(url, mode), headers=headers)
    pool = Pool([spec], client_info={"name": "armory-cli", "version": armory_version()})
    try:
        yield _There(pool, endpoint_url(url))
    finally:
        await pool.close()


@asynccontextmanager
async def opened(loaded: Loaded, *, only: str | None = None) -> AsyncGenerator[Runtime]:
    """A gateway that serves nobody but this command, ready to be asked.

    Args:
        loaded: the configuration.
        only: connect to this one upstream alone.
    """
    if only is not None and only in loaded.config.upstreams:
        loaded = _only(loaded, only)
    with waiting(f"connecting to {len(loaded.config.upstreams)} upstreams") as shown:
        async with open_runtime(loaded, trusted=True, on_progress=shown.indexed) as runtime:
            await runtime.ready()
            shown.say("asking")
            yield runtime


def _only(loaded: Loaded, server: str) -> Loaded:
    config = loaded.config.model_copy(
        update={"upstreams": {server: loaded.config.upstreams[server]}}
    )
    return replace(loaded, config=config)


def endpoint_url(url: str, mode: str | None = None) -> str:
    """The MCP endpoint meant by `url`.

    Raises:
        ConfigError: it is no http(s) URL.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is no URL of a gateway; write e.g. http://127.0.0.1:8080/mcp")
    path = parts.path if parts.path.strip("/") else "/mcp"
    query = "&".join(part for part in (parts.query, f"mode={mode}" if mode else "") if part)
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


async def all_tools(
    asked: Asker, meta: Mapping[str, Any] | None = None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Every page of `tools/list`: the definitions, and the selection that the answer tells of."""
    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    selection: dict[str, Any] = {}
    for _ in range(_MAX_PAGES):
        page = await asked.ask("tools/list", {"cursor": cursor} if cursor else {}, meta)
        tools += page.get("tools", [])
        selection = (page.get("_meta") or {}).get(SELECTION, selection)
        cursor = page.get("nextCursor")
        if not cursor:
            break
    return tools, selection


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _packed(values: Mapping[str, Any]) -> dict[str, Raw]:
    return {name: _raw(value) for name, value in values.items()}


def _result(reply: Reply) -> dict[str, Any]:
    if reply.error is not None:
        raise failure_of(error_of(reply.error))
    return msgspec.json.decode(b"".join(reply.parts))


def failure_of(error: ErrorObject) -> ArmoryError:
    """The error of the kind that the gateway names in `error.data.code`."""
    kind = _KINDS.get(_kind_of(error), _KIND_OF_CODE.get(error.code, ArmoryError))
    return kind(error.message or "refused")


def _kind_of(error: ErrorObject) -> str:
    data = error.data
    return str(cast("dict[str, Any]", data).get("code")) if isinstance(data, dict) else ""


def _not_reached(url: str, error: UpstreamUnavailable) -> ArmoryError:
    """The failure of `--url` in words of the command line, which knows no upstream."""
    said = error.message.removeprefix(f"upstream {_GATEWAY!r}").lstrip(": ")
    answer, unknown_caller = "", False
    if isinstance(error, HttpFailure):
        body = " ".join(bytes(error.body[:200]).decode(errors="replace").split())
        answer, unknown_caller = f"HTTP {error.status} {body}", error.status == 401
    elif isinstance(error, Incompatible) and error.refusal is not None:
        answer = error.refusal.message
        unknown_caller = _kind_of(error.refusal) == AuthenticationFailed.code
    if unknown_caller:
        return AuthenticationFailed(
            f"the gateway at {url} refuses: {answer}\nGive a token with --token or $ARMORY_TOKEN"
        )
    if answer:
        return UpstreamUnavailable(
            f"{url} is no MCP endpoint of a gateway: {answer}\nThe path is /mcp, /mcp/set/NAME or "
            "/mcp/SERVER, below server.base_path where that is set"
        )
    return UpstreamUnavailable(
        f"no gateway answers at {url}: {said}\nStart one with `armory serve`, or give another "
        "--url. Without --url the command opens the servers of armory.yaml itself"
    )
