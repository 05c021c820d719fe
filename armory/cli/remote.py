"""Requests of commands to a running gateway over HTTP.

Owns: `--url`: which endpoint it means, and what is said when nobody answers there. Never imports
the gateway's own rooms: a question to another gateway loads none.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import parse_qs, urlunsplit

from armory.cli.answers import OPERATOR, CommandLine, kind_of, packed, packed_value, result_of
from armory.cli.urls import endpoint_path, parts_of
from armory.errors import (
    AccessDenied,
    ArmoryError,
    AuthenticationFailed,
    UpstreamUnavailable,
)
from armory.protocol.link import Call, Owner
from armory.proxies import proxy_of
from armory.runtime.version import armory_version
from armory.upstreams.pool import Pool
from armory.upstreams.session.handshake import Incompatible
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.error_bodies import error_text, is_message
from armory.upstreams.transports.http_failures import HttpFailure

_GATEWAY = "gateway"


class RemoteGateway:
    """Asks a gateway that runs elsewhere."""

    def __init__(self, pool: Pool, url: str) -> None:
        self._pool = pool
        self._url = url

    async def ask(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """As `AnyGateway.ask`."""
        sent = packed(params)
        if meta:
            sent["_meta"] = packed_value(meta)
        name = params.get("name") or params.get("uri")
        call = Call(method, sent, client=CommandLine(), name_header=cast("str | None", name))
        try:
            reply = await self._pool.request(_GATEWAY, Owner(OPERATOR), call)
        except UpstreamUnavailable as error:
            raise _not_reached(self._url, error) from None
        return result_of(reply)

    def unreached(self) -> Mapping[str, str]:
        """Always empty: lists do not tell."""
        return {}


@asynccontextmanager
async def connected(
    url: str, token: str | None, mode: str | None = None
) -> AsyncGenerator[RemoteGateway]:
    """The gateway at a URL, for the duration of a command.

    Args:
        url: with or without `/mcp`, below `server.base_path` where that is set.
        token: bearer token for it.
        mode: as the URL parameter `mode`.

    Raises:
        ConfigError: it is no http(s) URL.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    proxy = proxy_of(parts_of(url))
    endpoint = endpoint_url(url, mode)
    spec = UpstreamSpec(key=_GATEWAY, url=endpoint, headers=headers, proxy=proxy)
    pool = Pool([spec], client_info={"name": "armory-cli", "version": armory_version()})
    try:
        yield RemoteGateway(pool, endpoint_url(url))
    finally:
        await pool.close()


def endpoint_url(url: str, mode: str | None = None) -> str:
    """The MCP endpoint meant by `url`; a `mode` that it names itself stays.

    Raises:
        ConfigError: it is no http(s) URL.
    """
    parts = parts_of(url, "/mcp")
    wanted = f"mode={mode}" if mode and "mode" not in parse_qs(parts.query) else ""
    query = "&".join(part for part in (parts.query, wanted) if part)
    return urlunsplit((parts.scheme, parts.netloc, endpoint_path(parts.path), query, ""))


def _not_reached(url: str, error: UpstreamUnavailable) -> ArmoryError:
    """The failure of `--url`, in words of the command line, which knows no upstream."""
    said = error.message.removeprefix(f"upstream {_GATEWAY!r}").lstrip(": ")
    answer, kind = "", ""
    if isinstance(error, HttpFailure):
        words = error_text(error.body)
        answer = f"HTTP {error.status}" + (f", {words}" if words else "")
        if error.status == 401:
            kind = AuthenticationFailed.code
        elif error.status == 503 and is_message(error.body):
            answer, kind = words, UpstreamUnavailable.code
    elif isinstance(error, Incompatible) and error.refusal is not None:
        answer = error.refusal.message
        kind = kind_of(error.refusal)
    if kind == AuthenticationFailed.code:
        return AuthenticationFailed(
            f"the gateway at {url} refuses: {answer}\nGive a token with --token or $ARMORY_TOKEN"
        )
    if isinstance(error, HttpFailure) and error.status == 403 and is_message(error.body):
        return AccessDenied(f"the gateway at {url} refuses: {error_text(error.body)}")
    if kind == UpstreamUnavailable.code:
        return UpstreamUnavailable(f"the gateway at {url} cannot answer: {answer}")
    if answer:
        return UpstreamUnavailable(
            f"{url} is no MCP endpoint of a gateway: {answer}\nThe path is /mcp, /mcp/set/NAME or "
            "/mcp/SERVER, below server.base_path where that is set"
        )
    return UpstreamUnavailable(
        f"no gateway answers at {url}: {said}\nStart one with `armory serve`, or give another "
        "--url. Without --url the command opens the servers of armory.yaml itself"
    )
