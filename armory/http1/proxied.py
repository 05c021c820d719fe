"""Requests through a proxy, with aiohttp's client.

Owns: its sessions and time-outs, and the messages for its errors. aiohttp is imported with the
first request. Never imports the protocol.
"""

from __future__ import annotations

import math
import re
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

from yarl import URL

from armory.authorities import trusted
from armory.http1.connecting import probed_socket, reason
from armory.http1.response import NoConnection
from armory.http1.sending import Body, whole

if TYPE_CHECKING:
    import aiohttp

PROXY = "the proxy on the way"
"""How each failure of a proxy calls it."""
_TIME_LIMITS = 64
"""Time limits that are kept: most requests have one of a few."""
_USERINFO = re.compile(r"//[^/\s@]{0,2000}@")
"""Credentials in a URL that an error quotes."""


class Proxied:
    """Like `Connections`, through a proxy.

    Args:
        proxy: its URL.
        tls: context for https, True for the platform's trust, False for none.
        connect_timeout_s: for making a connection, in seconds.
        keepalive_s: how long an idle connection is kept, in seconds.
    """

    def __init__(
        self, proxy: str, tls: ssl.SSLContext | bool, connect_timeout_s: float, keepalive_s: float
    ) -> None:
        self._proxy = proxy
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._keepalive_s = keepalive_s
        self._session: aiohttp.ClientSession | None = None
        self._time_limits: dict[float | None, aiohttp.ClientTimeout] = {}

    async def request(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: Body | None,
        timeout_s: float | None,
    ) -> aiohttp.ClientResponse:
        """As of `Connections`.

        Raises:
            NoConnection: none could be made in time.
            TimeoutError: the deadline passed.
            aiohttp.ClientError, OSError: no usable answer came, see `failure_text`.
            ValueError: a header holds a line break.
        """
        import aiohttp

        session = self._session
        if session is None:
            session = self._session = self._opened()
        if url.user is not None and any(name.lower() == "authorization" for name in headers):
            url = url.with_user(None)  # the header counts; aiohttp refuses both
        try:
            return await session.request(
                method,
                url,
                data=whole(body),
                headers=headers,
                timeout=self._time_limit(timeout_s),
                allow_redirects=False,
                proxy=self._proxy,
                ssl=trusted() if self._tls is True and url.scheme == "https" else self._tls,
            )
        except aiohttp.ConnectionTimeoutError:
            within_s = min(self._connect_timeout_s, timeout_s or math.inf)
            raise NoConnection(f"not within {within_s:g} s") from None

    def trust(self, tls: ssl.SSLContext | bool) -> None:
        """As of `Connections`."""
        self._tls = tls

    async def close(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        connector = aiohttp.TCPConnector(
            limit=0,
            keepalive_timeout=self._keepalive_s,
            ttl_dns_cache=60,
            socket_factory=probed_socket,
        )
        return aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=1024 * 1024
        )

    def _time_limit(self, timeout_s: float | None) -> aiohttp.ClientTimeout:
        known = self._time_limits.get(timeout_s)
        if known is None:
            import aiohttp

            if len(self._time_limits) > _TIME_LIMITS:
                self._time_limits.clear()
            known = self._time_limits[timeout_s] = aiohttp.ClientTimeout(
                total=timeout_s, connect=self._connect_timeout_s, ceil_threshold=math.inf
            )
        return known


def failure_text(error: Exception, where: str) -> str:
    """The message for an aiohttp error, or any other, without a proxy's credentials.

    Args:
        error: what a request or the reading of its answer raised.
        where: scheme, host and port of what was asked.
    """
    import aiohttp

    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"{PROXY} to {where} answered HTTP {error.status} ({error.message})"
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientConnectorDNSError):
        proxy, said = f"{error.host}:{error.port}", reason(error.os_error)
        return f"no connection to {PROXY} to {where}, {proxy} ({said})"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"no connection to {where} ({reason(error.os_error)})"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return f"{where} closed the connection without an answer"
    said = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return f"the exchange with {where} failed ({type(error).__name__}: {_bare(said)})"


def _bare(text: str) -> str:
    return _USERINFO.sub("//", " ".join(text.split()))
