"""The endpoints as OAuth protected resources (RFC 9728): their URLs and metadata.

Owns: which URL an endpoint is known by, and the metadata documents. Never checks a token.
"""

from __future__ import annotations

import re
from urllib.parse import quote

import msgspec
from aiohttp import web

from armory.security.authentication import ProtectedResource
from armory.wire.http.host_checks import HostChecks

WELL_KNOWN = "/.well-known/oauth-protected-resource"
_ENDPOINT = re.compile(r"/mcp(?:/[A-Za-z0-9-]{1,100}|/set/[A-Za-z0-9-]{1,100})?/?|/sse/?")


def is_endpoint(path: str) -> bool:
    """Whether a path below `base_path` may be an MCP endpoint's, with or without a
    trailing slash.
    """
    return _ENDPOINT.fullmatch(path) is not None


_ANYBODY = {"Access-Control-Allow-Origin": "*", "Cache-Control": "max-age=300"}


class ProtectedResources:
    """See the module; without `protected` no endpoint is one.

    Args:
        hosts: under which names the gateway is known.
        base_path: before every route.
        protected: what is said of each.
        pages: whether people are sent to pages of the gateway.
    """

    def __init__(
        self,
        hosts: HostChecks,
        base_path: str,
        protected: ProtectedResource | None,
        *,
        pages: bool = False,
    ) -> None:
        self._pages = pages
        self._hosts = hosts
        self._base = base_path
        self._protected = protected

    def own(self, request: web.Request) -> str | None:
        """The URL of a request's endpoint; None where that proves nothing, because the sender
        chooses the host.
        """
        if self._protected is None or not self._hosts.names_itself:
            return None
        path = request.path.rstrip("/")
        if path == f"{self._base}/messages":
            path = f"{self._base}/sse"
        return f"{self._origin(request)}{path}"

    def whole(self, request: web.Request) -> str | None:
        """The URL of `/mcp`, for requests to the gateway itself; None as for `own`."""
        if self._protected is None or not self._hosts.names_itself:
            return None
        return f"{self._origin(request)}{self._base}/mcp"

    def metadata_url(self, request: web.Request, path: str | None = None) -> str | None:
        """The metadata URL of an endpoint, by its path below `base_path`."""
        if self._protected is None:
            return None
        path = request.path.removeprefix(self._base).rstrip("/") if path is None else path
        path = "/sse" if path == "/messages" else path
        # somebody else may have written the path, into a link, and it goes into a header
        return f"{self._origin(request)}{self._base}{WELL_KNOWN}{quote(path, errors='replace')}"

    def register(self, app: web.Application) -> None:
        """Register the routes: at the root, as RFC 9728 has it, and below `base_path`, since some
        proxies pass on nothing else.
        """
        if self._protected is None:
            return
        for prefix in dict.fromkeys(("", self._base)):
            app.router.add_get(f"{prefix}{WELL_KNOWN}{{path:.*}}", self._document)
            app.router.add_route("OPTIONS", f"{prefix}{WELL_KNOWN}{{path:.*}}", _preflight)

    async def _document(self, request: web.Request) -> web.Response:
        assert self._protected is not None
        _, host = self._hosts.seen_as(request.remote, request.headers)
        if not self._hosts.host_allowed(host):
            raise web.HTTPForbidden(text="this Host is not in server.allowed_hosts\n")
        path = request.match_info["path"]
        if request.path.startswith(WELL_KNOWN):
            path = path.removeprefix(self._base)
        path = path.rstrip("/") or "/mcp"
        if not is_endpoint(path):
            raise web.HTTPNotFound(text=f"there is no MCP endpoint {path!r}\n", headers=_ANYBODY)
        own = f"{self._origin(request)}{self._base}"
        issuers = (own,) if self._protected.by_itself else self._protected.issuers
        found = {
            "resource": f"{self._origin(request)}{self._base}{path}",
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
            "resource_name": "Armory",
        }
        if self._protected.scopes:
            found["scopes_supported"] = self._protected.scopes
        body = msgspec.json.encode(found)
        return web.Response(body=body, content_type="application/json", headers=_ANYBODY)

    def pages_at(self, request: web.Request) -> str:
        """The base URL of the gateway's pages; "" where there are none."""
        return f"{self._origin(request)}{self._base}" if self._pages else ""

    def _origin(self, request: web.Request) -> str:
        return self._hosts.origin_of(request.remote, request.scheme, request.headers)


async def _preflight(_request: web.Request) -> web.Response:
    """Allows the header that clients in browsers send (`MCP-Protocol-Version`)."""
    allowed = {"Access-Control-Allow-Methods": "GET", "Access-Control-Allow-Headers": "*"}
    return web.Response(status=204, headers={**_ANYBODY, **allowed})
