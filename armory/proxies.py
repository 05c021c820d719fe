"""Which HTTP proxy the environment names for a URL.

Owns: `proxy_of`. Never imports a room: every one that sends requests may ask.
"""

from __future__ import annotations

import urllib.request
from urllib.parse import SplitResult

from armory.domain.hosts import LOOPBACK
from armory.errors import ConfigError


def proxy_of(parts: SplitResult) -> str | None:
    """The proxy that the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`) names for a URL;
    None: no proxy.

    Raises:
        ConfigError: it speaks something else than HTTP.
    """
    proxy = urllib.request.getproxies().get(parts.scheme)
    host = parts.netloc.rpartition("@")[2]
    if not proxy or parts.hostname in LOOPBACK or urllib.request.proxy_bypass(host):
        return None
    scheme, told, _ = proxy.partition("://")
    if told and scheme not in ("http", "https"):
        raise ConfigError(
            f"the proxy of the environment for {parts.scheme} URLs is one for {scheme}; only HTTP "
            f"proxies can be used: name one in ${parts.scheme.upper()}_PROXY, or the host in "
            "$NO_PROXY"
        )
    return proxy if told else f"http://{proxy}"
