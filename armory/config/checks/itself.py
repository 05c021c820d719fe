"""Upstreams that are the gateway's own endpoint.

Owns: finding them. It would list its own tools as theirs, the next time those as well, and so on
without an end. Never imports a room above `domain`.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from armory.config.blocks.server import ServerConfig
from armory.config.model import Config
from armory.config.problems import Path
from armory.domain.hosts import is_loopback

_PORTS = {"http": 80, "https": 443}
_ENDPOINTS = ("/mcp", "/sse")


def own_upstreams(config: Config) -> Iterator[tuple[Path, str]]:
    """Where an upstream, or a bridge to one, is the gateway of this configuration; and its URL."""
    for key, block in config.upstreams.items():
        if not block.enabled:
            continue
        for member, texts in (("url", [block.url]), ("args", block.args)):
            for text in texts:
                if text and is_own(str(text), config.server):
                    yield ("upstreams", key, member), str(text)


def is_own(text: str, server: ServerConfig) -> bool:
    """Whether it is the URL of an endpoint that has all tools, as this machine would call it."""
    try:
        url = urlsplit(text)
        port = url.port or _PORTS.get(url.scheme)
    except ValueError:
        return False
    here = {f"{server.base_path}{endpoint}" for endpoint in _ENDPOINTS}
    if url.scheme not in _PORTS or port != server.port or url.path.rstrip("/") not in here:
        return False
    host = url.hostname or ""
    return host == server.host or (is_loopback(host) and _has_loopback(server.host))


def _has_loopback(host: str) -> bool:
    try:
        return is_loopback(host) or ip_address(host).is_unspecified
    except ValueError:
        return False
