"""Asks running gateways: at a URL, or those of this user's `ARMORY_HOME`.

Owns: finding them and reading one JSON answer. Never imports a web framework.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from armory.cli.urls import parts_of
from armory.config.home import home_here
from armory.domain.hosts import LOOPBACK
from armory.errors import (
    AccessDenied,
    ArmoryError,
    AuthenticationFailed,
    BackendError,
    ConfigError,
    InvalidRequest,
    QuotaExceeded,
    RateLimited,
    UpstreamUnavailable,
)
from armory.errors import UnknownTool as NotFound
from armory.runtime.entry.local_access import ending, running

_KINDS = (ConfigError, InvalidRequest, RateLimited, QuotaExceeded, BackendError)
"""What else a gateway may say, each with the exit code that it has where it happens here."""
_WITHIN_S = 15.0
_SHOWN = 80


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; the token is sent only to the host that it was given for."""

    def redirect_request(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """As the standard library's, which would send the token to any host."""
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        upgraded = (before.scheme, after.scheme, before.hostname) == (
            "http",
            "https",
            after.hostname,
        )
        if made is not None and not upgraded and before[:2] != after[:2]:
            made.remove_header("Authorization")
        return made


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Redirects)
_proxied = urllib.request.build_opener(_Redirects)


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway.

    Attributes:
        url: with `server.base_path`, without an endpoint.
        token: bearer token; None: none.
        pid: its process, where it runs on this machine; 0 otherwise.
        host: Host header that it takes; empty: that of `url`.
    """

    url: str
    token: str | None
    pid: int = 0
    host: str = ""

    def get(
        self,
        path: str,
        *,
        also: tuple[int, ...] = (),
        method: str = "GET",
        sent: Mapping[str, Any] | None = None,
        tag: str = "",
    ) -> dict[str, Any]:
        """Send one request; returns the JSON answer.

        Args:
            path: below `url`.
            also: further HTTP statuses whose body is the answer.
            method: of HTTP.
            sent: the body of the request.
            tag: the version that it was made from (`If-Match`).

        Raises:
            UpstreamUnavailable: nobody answers there, or no gateway.
            AuthenticationFailed, AccessDenied: not with this token.
            UnknownTool: there is nothing of that name.
        """
        asked = urllib.request.Request(self.url + path, method=method)
        if sent is not None:
            asked.data = json.dumps(sent).encode()
            asked.add_header("Content-Type", "application/json")
        if tag:
            asked.add_header("If-Match", f'"{tag}"')
        if self.host:
            asked.add_header("Host", self.host)
        if self.token:  # as bytes: the standard library knows Latin-1 alone
            asked.headers["Authorization"] = cast("str", f"Bearer {self.token}".encode())
        try:
            with self._opened(asked) as answer:
                return self._read(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                body = refused.read()
            if refused.code in also:
                return self._read(body)
            raise self._refusal(refused.code, body) from None
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            raise UpstreamUnavailable(
                f"no gateway answers at {self.url} ({reason}); start one with `armory serve`, or "
                "give another --url"
            ) from None
        except http.client.HTTPException as error:
            said = (str(error).strip() or type(error).__name__)[:_SHOWN]
            raise UpstreamUnavailable(
                f"{self.url} is no gateway: what answers there does not speak HTTP ({said!r})"
            ) from None

    def _opened(self, asked: urllib.request.Request) -> Any:
        """Send a request; without the environment's proxies for gateways on this machine."""
        if self.pid or urlsplit(self.url).hostname in LOOPBACK:
            return _direct.open(asked, timeout=_WITHIN_S)
        return _proxied.open(asked, timeout=_WITHIN_S)

    def _read(self, body: bytes) -> dict[str, Any]:
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise UpstreamUnavailable(
                f"{self.url} is no gateway: it answered something else than JSON"
            )
        return cast("dict[str, Any]", found)

    def _refusal(self, status: int, body: bytes) -> ArmoryError:
        try:
            problem = json.loads(body)
            detail, code = str(problem["detail"]), problem.get("code")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            detail, code = f"HTTP {status}", None
            if status not in (401, 403):
                return UpstreamUnavailable(
                    f"no gateway answers at {self.url}: {detail}; the URL is that of the clients "
                    "without /mcp, with server.base_path where that is set"
                )
        message = f"the gateway at {self.url} refuses: {detail}"
        if status == 401:
            return AuthenticationFailed(f"{message}. Give a token with --token or $ARMORY_TOKEN")
        if status == 403 and "allowed_hosts" not in detail:
            return AccessDenied(f"{message}. Give a token with the scope `admin`")
        if status == 404:
            return NotFound(detail)
        return next((kind(message) for kind in _KINDS if kind.code == code), ArmoryError(message))


def gateways(url: str | None, token: str | None) -> list[Gateway]:
    """The gateway at `url`, or else all that run here.

    Raises:
        ConfigError: `url` is no http(s) URL.
        UpstreamUnavailable: no gateway runs here.
    """
    home = home_here()
    local = running(home)
    if url is None:
        if not local:
            raise UpstreamUnavailable(_none_runs(home))
        # not $ARMORY_TOKEN: it is for remote gateways, and may lack the scope `admin` here
        return [Gateway(found.url, found.token, found.pid, found.host) for found in local]
    parts = parts_of(url)
    base = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/").removesuffix("/mcp")
    known = [found for found in local if found.url == base]
    if known:
        return [Gateway(base, token or known[0].token, known[0].pid, known[0].host)]
    return [Gateway(base, token)]


def _none_runs(home: Path) -> str:
    start = "start one with `armory serve`, or give the --url of another"
    if left := ending(home):
        pids = ", ".join(str(one.pid) for one in left)
        return f"the gateway here is ending (pid {pids}): it finishes its calls in flight; {start}"
    return f"no gateway runs here (none has left a note in {home}); {start}"
