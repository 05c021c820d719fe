"""TLS settings toward an upstream and toward its authorization servers.

Owns: which certificates are trusted, by the upstream's `tls`. Never imports a link.
"""

from __future__ import annotations

import ssl
from functools import partial
from typing import Any

from armory.errors import UpstreamUnavailable
from armory.upstreams.oauth.grants import named_by
from armory.upstreams.spec import UpstreamSpec


def tls_of(spec: UpstreamSpec) -> ssl.SSLContext | bool:
    """The `ssl` argument for connections: True: the system's authorities; a context: with
    `tls.ca_file` as well; False: certificates are not checked.

    Raises:
        UpstreamUnavailable: `tls.ca_file` cannot be read.
    """
    if not spec.verify:
        return False
    if spec.ca_file is None:
        return True
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(spec.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UpstreamUnavailable(
            f"upstream {spec.key!r}: tls.ca_file {spec.ca_file!r} cannot be read: {error}",
            upstream=spec.key,
            told=f"upstream {spec.key!r}: tls.ca_file cannot be read",
        ) from None
    return context


def asking_for_tokens(
    spec: UpstreamSpec, tls: ssl.SSLContext | bool | None = None
) -> dict[str, Any]:
    """TLS and proxy arguments of `TokenClient` for an upstream.

    Args:
        spec: of the upstream.
        tls: as made of it before.

    Raises:
        UpstreamUnavailable: `tls.ca_file` cannot be read.
    """
    found: dict[str, Any] = {
        "tls": tls_of(spec) if tls is None else tls,
        "proxy": spec.proxy,
        "timeout_s": spec.connect_timeout_s,
        "named": named_by(spec.auth, spec.url or ""),
    }
    if spec.ca_file is not None:
        found["trusted"] = partial(tls_of, spec)
    return found
