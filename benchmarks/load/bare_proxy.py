"""The floor: an aiohttp reverse proxy that copies method, headers and bodies and knows nothing."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator

from aiohttp import ClientSession, DummyCookieJar, TCPConnector, web

_HOP = {"host", "connection", "transfer-encoding", "content-length", "keep-alive"}


def proxy_app(target: str) -> web.Application:
    """Everything under `/` goes to `target`, streamed back."""

    async def session(app: web.Application) -> AsyncIterator[None]:
        app["session"] = ClientSession(
            connector=TCPConnector(limit=0), cookie_jar=DummyCookieJar(), auto_decompress=False
        )
        yield
        await app["session"].close()

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
        client: ClientSession = request.app["session"]
        async with client.request(
            request.method, target + request.rel_url.path_qs, data=body, headers=headers
        ) as upstream:
            kept = {k: v for k, v in upstream.headers.items() if k.lower() not in _HOP}
            if upstream.content_length is not None:
                return web.Response(
                    status=upstream.status, body=await upstream.read(), headers=kept
                )
            response = web.StreamResponse(status=upstream.status, headers=kept)
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    app = web.Application(client_max_size=1 << 24)
    app.cleanup_ctx.append(session)
    app.router.add_route("*", "/{tail:.*}", handle)
    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    web.run_app(proxy_app(args.target), host="127.0.0.1", port=args.port, print=None)


if __name__ == "__main__":
    main()
