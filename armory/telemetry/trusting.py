"""The certificates that an exporter trusts.

Owns: `TrustingSession`, and where one is needed. Imports what the extra for OpenTelemetry brings,
so it is imported only where telemetry is on.
"""

from __future__ import annotations

import os
from typing import Any

import requests


class TrustingSession(requests.Session):
    """Trusts the authorities of its `verify`, also where REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE names
    others: to those `requests` gives preference over a session's own.
    """

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:
        """As `requests.Session.merge_environment_settings`."""
        own = self.verify if verify is None else verify
        return super().merge_environment_settings(url, proxies, stream, own, cert)


def session_for(signal: str) -> TrustingSession | None:
    """The session of an exporter; None: one that it makes itself.

    Args:
        signal: TRACES or METRICS.
    """
    named = ("", f"{signal}_")
    if any(
        os.environ.get(f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{one}CREDENTIAL_PROVIDER") for one in named
    ):
        return None
    if any(os.environ.get(f"OTEL_EXPORTER_OTLP_{one}CERTIFICATE") for one in named):
        return TrustingSession()
    return None
