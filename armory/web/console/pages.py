"""Serves the console's files, as they were built from `console/`.

Owns: the routes below `/console`, and `/` for browsers. Knows nothing that REST does not show:
the files are the same for everybody, and ask the REST API of their own origin for the rest.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from importlib.resources import files

from aiohttp import web

CONSOLE = "/console"
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    content_type: str
    tag: str


def register_console(app: web.Application, base_path: str = "") -> None:
    """Register the routes.

    Args:
        app: where to.
        base_path: before each path.
    """
    found = _files()
    app.router.add_get(f"{base_path}/", _front)
    app.router.add_get(base_path + CONSOLE, _moved)
    app.router.add_get(f"{base_path}{CONSOLE}/", partial(_serve, found["index.html"]))
    for name, file in found.items():
        app.router.add_get(f"{base_path}{CONSOLE}/{name}", partial(_serve, file))


def _files() -> dict[str, _File]:
    folder = files("armory.web.console") / "static"
    found: dict[str, _File] = {}
    for entry in folder.iterdir():
        kind = _TYPES.get("." + entry.name.rpartition(".")[2])
        if kind is not None:
            body = entry.read_bytes()
            found[entry.name] = _File(body, kind, f'"{hashlib.sha256(body).hexdigest()[:20]}"')
    return found


async def _serve(file: _File, request: web.Request) -> web.StreamResponse:
    headers = {**_HEADERS, "ETag": file.tag}
    if request.headers.get("If-None-Match") == file.tag:
        return web.Response(status=304, headers=headers)
    response = web.Response(body=file.body, headers={**headers, "Content-Type": file.content_type})
    response.enable_compression()
    return response


async def _moved(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(f"{request.rel_url.raw_path}/")


async def _front(request: web.Request) -> web.StreamResponse:
    if "text/html" not in request.headers.get("Accept", ""):
        raise web.HTTPNotFound(
            text="there is nothing here but for browsers: MCP clients connect to mcp, the REST API "
            "is described at docs, each below this path\n"
        )
    raise web.HTTPFound(f"{request.rel_url.raw_path}{CONSOLE.lstrip('/')}/")
