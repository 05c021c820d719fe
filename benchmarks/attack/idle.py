"""A server that answers every GET and does nothing else: what it shows late, the machine was."""

from __future__ import annotations

import sys

from aiohttp import web


async def _answer(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def main() -> None:
    app = web.Application()
    app.router.add_get("/{tail:.*}", _answer)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)


if __name__ == "__main__":
    main()
