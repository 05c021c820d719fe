"""The URL of a gateway, as it is given to `--url`.

Owns: `parts_of`, and which proxy of the environment is on the way. Never imports a room but
`domain`.
"""

from __future__ import annotations

import re
import urllib.request
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from armory.domain.hosts import LOOPBACK
from armory.errors import ConfigError


def proxy_of(parts: SplitResult) -> str | None:
    """The proxy that the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`) has for a URL; None:
    it is asked directly, as this machine is.

    Raises:
        ConfigError: it speaks something else than HTTP.
    """
    proxy = urllib.request.getproxies().get(parts.scheme)
    if not proxy or parts.hostname in LOOPBACK or urllib.request.proxy_bypass(parts.netloc):
        return None
    scheme, told, _ = proxy.partition("://")
    if told and scheme not in ("http", "https"):
        raise ConfigError(
            f"the proxy of the environment for {parts.scheme} URLs is one for {scheme}; only HTTP "
            f"proxies can be used: name one in ${parts.scheme.upper()}_PROXY, or the host in "
            "$NO_PROXY"
        )
    return proxy if told else f"http://{proxy}"


def parts_of(url: str, path: str = "") -> SplitResult:
    """Its parts; http where it says no scheme.

    Args:
        url: as it was given.
        path: what the example has behind the port.

    Raises:
        ConfigError: nobody could be asked there.
    """
    with suppress(ValueError):  # of brackets, or a port that is none
        parts = urlsplit(url if "://" in url else f"http://{url}")
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if named and not re.search(r"[\s\x00-\x1f\x7f]", url):
            return parts
    raise ConfigError(f"{url!r} is no URL of a gateway; write e.g. http://127.0.0.1:8080{path}")
