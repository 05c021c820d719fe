"""Serves a scripted application on a port that the system chooses.

Owns: `listening`. Never imports the gateway.
"""

from __future__ import annotations

import ssl

from aiohttp import web


async def listening(
    app: web.Application, tls: ssl.SSLContext | None = None
) -> tuple[web.AppRunner, str]:
    """Serve an application on loopback: (the object to clean up, its URL)."""
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    scheme = "http" if tls is None else "https"
    return runner, f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
