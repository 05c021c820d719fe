"""Upstreams that are an endpoint of the gateway's own, on which they are served themselves.

Owns: finding them. It would list its own tools as theirs, the next time those as well, and so on
without an end. Never imports a room above `domain`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from armory.config.blocks.server import ServerConfig
from armory.config.model import Config, SetConfig
from armory.config.problems import Path
from armory.domain.hosts import is_loopback

_PORTS = {"http": 80, "https": 443}
_ENDPOINTS = ("/mcp", "/sse")
_WILDCARD = re.compile(r"[*?\[]")


def own_upstreams(config: Config) -> Iterator[tuple[Path, str]]:
    """Where an upstream, or a bridge to one, is the gateway of this configuration; and its URL."""
    for key, block in config.upstreams.items():
        if not block.enabled:
            continue
        for member, texts in (("url", [block.url]), ("args", block.args)):
            endpoints = (*_ENDPOINTS, *_own_endpoints(key, config.sets))
            for text in texts:
                if text and is_own(str(text), config.server, endpoints):
                    yield ("upstreams", key, member), str(text)


def _own_endpoints(key: str, sets: Mapping[str, SetConfig]) -> Iterator[str]:
    """The endpoint of an upstream, and those of sets that may have tools of it."""
    yield f"/mcp/{key}"
    names = f"{key}__"
    for name, chosen in sets.items():
        starts = [_WILDCARD.split(pattern)[0] for pattern in chosen.tools]
        if key in chosen.servers or any(
            names.startswith(start) or start.startswith(names) for start in starts
        ):
            yield f"/mcp/set/{name}"


def is_own(text: str, server: ServerConfig, endpoints: Iterable[str] = _ENDPOINTS) -> bool:
    """Whether it is the URL of one of these endpoints, as this machine would call it; if they are
    not named, of one that has all tools.
    """
    try:
        url = urlsplit(text)
        port = url.port or _PORTS.get(url.scheme)
    except ValueError:
        return False
    here = {f"{server.base_path}{endpoint}" for endpoint in endpoints}
    path = unquote(url.path).rstrip("/")
    if url.scheme not in _PORTS or port != server.port or path not in here:
        return False
    host = url.hostname or ""
    return host == server.host or (_has_loopback(host) and _has_loopback(server.host))


def _has_loopback(host: str) -> bool:
    """Whether it is this machine, or any of its addresses: who calls 0.0.0.0 calls itself."""
    try:
        return is_loopback(host) or ip_address(host).is_unspecified
    except ValueError:
        return False
