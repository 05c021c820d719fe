"""One HTTP exchange with an authorization server: bounded, no redirects, no cookies.

Owns: the request and its bounds. Never logs or repeats what is sent; never imports the protocol.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlsplit

import msgspec

from armory.authorities import refused, trusted
from armory.domain.uris import readable
from armory.errors import ConfigError
from armory.oauth.guard import NotPublic, leads_inside, must_be_public, public_socket
from armory.proxies import proxy_of

if TYPE_CHECKING:
    import aiohttp

_BODY_BYTES = 1 << 20
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class NoAnswer(Exception):
    """There was no answer; the message says where and why, without the URL's query.

    Attributes:
        why: for the log, where whoever asked is not told.
    """

    def __init__(self, said: str, why: str = "") -> None:
        super().__init__(said)
        self.why = why or said


@dataclass(frozen=True, slots=True)
class Route:
    """How an authorization server is reached.

    Attributes:
        tls: True (whom the platform trusts), False (unchecked), or a context.
        proxy: URL of an HTTP proxy; None: the one of the environment, where that names one.
        timeout_s: for each exchange.
        body_bytes: longest answer; what is longer is cut.
        named: URLs that the configuration names, for what others name in turn (see `guard`); none:
            anybody names it, who is not told whether a name is one of inside; None: what is asked
            comes of the configuration itself.
    """

    tls: SSLContext | bool = True
    proxy: str | None = None
    timeout_s: float = 15.0
    body_bytes: int = _BODY_BYTES
    named: tuple[str, ...] | None = None

    async def connector(self, url: str, proxy: str | None) -> aiohttp.TCPConnector:
        """The connector for a request; restricted to public addresses where `named` requires it.

        Raises:
            NotPublic: the URL names another one, and a proxy would make the connection.
        """
        import aiohttp  # heavy, and seldom needed by a command

        if self.named is None or not await must_be_public(url, self.named):
            return aiohttp.TCPConnector()
        if proxy is None:
            return aiohttp.TCPConnector(socket_factory=public_socket)
        if await leads_inside(url):
            raise NotPublic
        return aiohttp.TCPConnector()


DIRECT = Route()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of an authorization server.

    Attributes:
        status: of HTTP.
        body: its beginning.
        headers: case-insensitive.
    """

    status: int
    body: bytes
    headers: Mapping[str, str]


async def exchange(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    *,
    form: Mapping[str, str] | None = None,
    json: Any = None,
    route: Route = DIRECT,
) -> Answer:
    """Send one request and read the answer.

    Raises:
        NoAnswer: none came in time.
    """
    import aiohttp  # heavy, and seldom needed by a command

    timeout = aiohttp.ClientTimeout(total=route.timeout_s)
    try:
        proxy = route.proxy or proxy_of(urlsplit(readable(url)))
        connector = await route.connector(url, proxy)
        async with (
            aiohttp.ClientSession(
                timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), connector=connector
            ) as http,
            http.request(
                method, url, headers=headers, data=form, json=json,
                ssl=trusted() if route.tls is True else route.tls, proxy=proxy,
                allow_redirects=False,
            ) as answer,
        ):  # fmt: skip
            body = b""
            while len(body) < route.body_bytes and (chunk := await answer.content.readany()):
                body += chunk
            return Answer(answer.status, body, answer.headers)
    except (aiohttp.ClientError, OSError, ValueError, TimeoutError, ConfigError) as error:
        where = url.partition("?")[0]
        why = _why(error, where)
        message = f"{where} did not answer from a public address" if route.named == () else why
        raise NoAnswer(message, why) from None


def _why(error: Exception, where: str) -> str:
    """The reason of a failure, without the credentials of a proxy."""
    import aiohttp

    if isinstance(getattr(error, "os_error", error), NotPublic):
        return f"{where} is not asked: it is at no public address"
    if said := refused(error):
        return f"the certificate of {where} is not trusted ({said})"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"{where} did not answer: the proxy on the way answered HTTP {error.status}"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"{where} did not answer: the proxy on the way cannot be reached"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        reason = getattr(error.os_error, "reason", None) or type(error.os_error).__name__
        return f"{where} did not answer: TLS with it failed ({reason})"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"{where} did not answer: its name cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return f"{where} did not answer: {os.strerror(error.os_error.errno)}"
    if isinstance(error, ConfigError):
        return f"{where} is not asked: {error.message}"
    return f"{where} did not answer ({type(error).__name__})"


def json_object(body: bytes) -> Mapping[str, Any] | None:
    """A JSON object; None for anything else."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def basic(id: str, secret: str) -> dict[str, str]:
    """The header of HTTP Basic client authentication (RFC 6749, 2.3.1)."""
    pair = f"{quote_plus(id)}:{quote_plus(secret)}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
