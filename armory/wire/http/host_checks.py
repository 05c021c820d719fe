"""Checks of Host and Origin, and trusted proxies: DNS rebinding, CORS, forwarding headers.

Owns: these decisions over plain header values. Never imports a web framework.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from multidict import MultiMapping

from armory.domain.hosts import LOOPBACK, is_loopback
from armory.errors import ConfigError
from armory.protocol.headers import (
    LAST_EVENT_ID,
    METHOD_HEADER,
    NAME_HEADER,
    SESSION_HEADER,
    VERSION_HEADER,
)

PASSED = "X-Armory-Passed"
"""Header of requests that another replica passes on: a secret that only replicas know."""
FORWARDED = ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto")
_HOST_CHARS = 256
"""Longest Host value whose check is cached: anybody may send longer ones."""
_PORTS = {"http": ":80", "https": ":443"}
_HOPS = 32
"""Proxies of a request that are looked at, from the last on: the first may be made up."""
_METHODS = "GET, POST, DELETE, OPTIONS"
_EXPOSED = f"{SESSION_HEADER}, {VERSION_HEADER}, WWW-Authenticate, Retry-After"
_DEFAULT_HEADERS = (
    f"Authorization, Content-Type, Accept, {LAST_EVENT_ID}, {SESSION_HEADER}, {VERSION_HEADER}, "
    f"{METHOD_HEADER}, {NAME_HEADER}, "
    "X-Armory-Query, X-Armory-Threshold, X-Armory-Top-K, X-Armory-Servers, "
    "X-Armory-Categories, X-Armory-Ranker, X-Armory-Mode, X-Prefer-Format, X-API-Key"
)


class HostChecks:
    """The checks of one listener.

    Args:
        host: the address that the server is bound to.
        allowed_hosts: further Host values, with a port or of any port; `*` allows all.
        allowed_origins: origins of browser clients (`https://app.example`); `*` allows all.
        trusted_proxies: addresses or networks whose `X-Forwarded-*` headers count.

    Raises:
        ConfigError: a proxy is neither an address nor a network.

    Attributes:
        hop: the secret that other replicas send in `PASSED`; their forwarding headers count like a
            proxy's. Empty: there are no other replicas.
        names_itself: whether only configured names are accepted as Host: then a request's URL is
            the gateway's own, not one that the sender chose.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        allowed_hosts: Sequence[str] = (),
        allowed_origins: Sequence[str] = (),
        trusted_proxies: Sequence[str] = (),
    ) -> None:
        self.hop = ""
        self.loopback = is_loopback(host)
        self._hosts = frozenset(name.lower() for name in allowed_hosts)
        self.names_itself = "*" not in self._hosts and (self.loopback or bool(self._hosts))
        self._origins = frozenset(origin.rstrip("/").lower() for origin in allowed_origins)
        self._proxies: list[IPv4Network | IPv6Network] = []
        for place, proxy in enumerate(trusted_proxies):
            try:
                self._proxies.append(ip_network(proxy, strict=False))
            except ValueError:
                raise ConfigError(
                    f"{proxy!r} is neither an address nor a network, e.g. 10.0.0.0/8",
                    path=f"server.trusted_proxies[{place}]",
                ) from None
        self._known_hosts: dict[str, bool] = {}

    def host_allowed(self, host: str | None) -> bool:
        """Whether requests with this Host value are accepted (guards against DNS rebinding)."""
        if not self.names_itself:
            return True
        if host is None:
            return False
        known = self._known_hosts.get(host)
        if known is None:
            known = self._check_host(host.lower())
            if len(host) <= _HOST_CHARS:
                if len(self._known_hosts) > 1_000:
                    self._known_hosts.clear()
                self._known_hosts[host] = known
        return known

    def _check_host(self, host: str) -> bool:
        name = _name_of(host)
        if self.loopback and name in LOOPBACK:
            return True
        usual = (host + port for port in _PORTS.values())  # which clients do not write
        return not self._hosts.isdisjoint((host, name, *usual))

    def origin_allowed(self, origin: str) -> bool:
        """Whether browser pages of this origin may call the gateway."""
        if "*" in self._origins or origin.rstrip("/").lower() in self._origins:
            return True
        if not self.loopback or not origin.isascii():  # browsers write other letters as Punycode
            return False
        try:
            parts = urlsplit(origin)
            return parts.scheme in ("http", "https") and parts.hostname in LOOPBACK
        except ValueError:
            return False

    def _trusts(self, peer: str | None) -> bool:
        """Whether the peer is a proxy whose forwarding headers count."""
        if not self._proxies or peer is None:
            return False
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        return any(address in network for network in self._proxies)

    def _forwards(self, peer: str | None, headers: Mapping[str, str]) -> bool:
        """Whether a request's forwarding headers count."""
        if self._trusts(peer):
            return True
        if not self.hop:
            return False
        said = headers.get(PASSED, "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(said, self.hop.encode())

    def seen_as(
        self, peer: str | None, headers: Mapping[str, str]
    ) -> tuple[str | None, str | None]:
        """(client address, Host value) of a request, through trusted proxies."""
        host = headers.get("Host")
        if not (self._proxies or self.hop) or not self._forwards(peer, headers):
            return peer, host
        host = headers.get("X-Forwarded-Host", host)
        said = _lines(headers, "X-Forwarded-For").rsplit(",", _HOPS)[-_HOPS:]
        hops = [hop.strip() for hop in said if hop.strip()]
        for hop in reversed(hops):
            peer = hop
            if not self._trusts(hop):
                break
        return peer, host

    def origin_of(self, peer: str | None, scheme: str, headers: Mapping[str, str]) -> str:
        """`scheme://host` under which a request was sent, through trusted proxies.

        Args:
            peer: address of whoever is connected.
            scheme: of that connection.
            headers: of the request.
        """
        _, host = self.seen_as(peer, headers)
        if self._forwards(peer, headers):
            said = headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower()
            scheme = said if said in _PORTS else scheme
        host = (host or "").lower()
        return f"{scheme}://{host.removesuffix(_PORTS[scheme])}"

    def passed_on(
        self, peer: str | None, scheme: str, headers: Mapping[str, str]
    ) -> dict[str, str]:
        """The forwarding headers for a request that is forwarded to a replica; arguments as of
        `origin_of`.
        """
        remote, host = self.seen_as(peer, headers)
        scheme = self.origin_of(peer, scheme, headers).partition(":")[0]
        return {
            name: value
            for name, value in zip(FORWARDED, (remote, host, scheme), strict=True)
            if value is not None
        }


def _lines(headers: Mapping[str, str], name: str) -> str:
    """All lines of a header: some proxies add a line after the client's own."""
    if name in headers and isinstance(headers, MultiMapping):
        return ",".join(headers.getall(name))
    return headers.get(name, "")


def _name_of(host: str) -> str:
    """The name in a Host value; "" where its end is no port: `name:80@elsewhere` would lead
    elsewhere.
    """
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name if ":" in name and (not rest or _is_port(rest)) else ""
    if host.count(":") != 1:
        return host
    name, _, port = host.partition(":")
    return name if _is_port(f":{port}") else ""


def _is_port(rest: str) -> bool:
    port = rest[1:]
    return rest[0] == ":" and (not port or (port.isascii() and port.isdigit()))


def cors_headers(origin: str) -> dict[str, str]:
    """The headers of every answer to an allowed origin."""
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": _EXPOSED,
        "Vary": "Origin",
    }


def preflight_headers(origin: str, asked: str | None) -> dict[str, str]:
    """The answer to a preflight of an allowed origin."""
    return {
        **cors_headers(origin),
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": asked or _DEFAULT_HEADERS,
        "Access-Control-Max-Age": "600",
    }
