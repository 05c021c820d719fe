"""What is logged of each request at the level `debug`."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from structlog.testing import capture_logs

from armory.web.app import make_app

pytestmark = pytest.mark.anyio


async def left(request: web.Request) -> web.StreamResponse:
    raise asyncio.CancelledError


async def broken(request: web.Request) -> web.StreamResponse:
    raise RuntimeError


async def refused(request: web.Request) -> web.StreamResponse:
    raise web.HTTPForbidden


@pytest.mark.parametrize(
    ("handler", "error", "status"),
    [
        (left, asyncio.CancelledError, 499),
        (broken, RuntimeError, 500),
        (refused, web.HTTPForbidden, 403),
    ],
)
async def test_a_client_that_leaves_is_no_failure(
    handler: object, error: type[BaseException], status: int
) -> None:
    log = make_app(body_bytes=1, log_requests=True).middlewares[0]
    with capture_logs() as logs, pytest.raises(error):
        await log(make_mocked_request("GET", "/mcp"), handler)  # pyright: ignore
    assert [(line["event"], line["status"]) for line in logs] == [("request", status)]
