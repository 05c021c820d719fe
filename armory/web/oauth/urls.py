"""The gateway's URLs as a request sees them, and the shape of OAuth answers.

Owns: `OAuthServices`, `GatewayUrls`, forms and JSON answers. Never decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from typing import Any

import msgspec
from aiohttp import web

from armory.authserver.errors import OAuthError
from armory.authserver.requests import each_once
from armory.authserver.server import AuthorizationServer
from armory.security.sealing import Seal
from armory.web.cookies import Hosts, origin_of

BODY_BYTES = 32_768
ANYBODY = {"Access-Control-Allow-Origin": "*"}
_NOT_KEPT = {**ANYBODY, "Cache-Control": "no-store", "Pragma": "no-cache"}


@dataclass(frozen=True, slots=True, eq=False)
class OAuthServices:
    """The dependencies of the endpoints and pages.

    Attributes:
        server: the authorization server.
        seal: of forms and cookies.
        hosts: host checks.
        is_endpoint: whether a path below `base_path` is one of an MCP endpoint.
        base_path: before every route.
    """

    server: AuthorizationServer
    seal: Seal
    hosts: Hosts
    is_endpoint: Callable[[str], bool]
    base_path: str = ""


class GatewayUrls:
    """The gateway's URLs as a request sees them."""

    def __init__(self, services: OAuthServices) -> None:
        self._s = services

    def origin(self, request: web.Request) -> str:
        """`scheme://host`, through trusted proxies."""
        return origin_of(self._s.hosts, request)

    def issuer(self, request: web.Request) -> str:
        """The issuer identifier of the gateway."""
        return f"{self.origin(request)}{self._s.base_path}"

    def asker(self, request: web.Request) -> str:
        """The client's network, through trusted proxies."""
        return network_of(self._s.hosts.seen_as(request.remote, request.headers)[0] or "")

    def is_allowed(self, request: web.Request) -> bool:
        """Whether the request's Host is one of the gateway's own names."""
        _, host = self._s.hosts.seen_as(request.remote, request.headers)
        return self._s.hosts.host_allowed(host)

    def is_resource(self, request: web.Request, url: str) -> bool:
        """Whether a URL is one of the gateway's endpoints."""
        issuer = self.issuer(request)
        return url.startswith(f"{issuer}/") and self._s.is_endpoint(url.removeprefix(issuer))


def network_of(address: str) -> str:
    """The network that the holder of an address has: for IPv6 its /64."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    mapped = found.ipv4_mapped
    return found.packed[:8].hex() if mapped is None else str(mapped)


def as_json(
    found: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A JSON answer, readable by pages of any origin."""
    every = {**_NOT_KEPT, **(headers or {})}
    body = msgspec.json.encode(found)
    return web.Response(body=body, status=status, content_type="application/json", headers=every)


def refusal(error: OAuthError) -> web.Response:
    """An error answer (RFC 6749, 5.2)."""
    found = {"error": error.code, "error_description": error.description}
    if error.status != 401:
        return as_json(found, error.status)
    return as_json(found, 401, {"WWW-Authenticate": 'Basic realm="armory"'})


async def form_of(request: web.Request) -> dict[str, str]:
    """The fields of a form; a repeated field is refused.

    Raises:
        OAuthError: it is no such form.
    """
    if request.content_type != "application/x-www-form-urlencoded":
        raise OAuthError("invalid_request", "send application/x-www-form-urlencoded")
    # A body in chunks says its length only by its end, and `post` would parse all of it.
    if (request.content_length or 0) > BODY_BYTES or len(await request.read()) > BODY_BYTES:
        raise OAuthError("invalid_request", f"the form has at most {BODY_BYTES} bytes", 413)
    try:
        form = await request.post()
    except (ValueError, LookupError):  # it is no text in its encoding
        raise OAuthError("invalid_request", "send the form in UTF-8") from None
    return each_once({name: str(form[name]) for name in form}, lambda name: len(form.getall(name)))
