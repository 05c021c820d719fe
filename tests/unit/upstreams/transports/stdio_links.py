"""Links to scripted and inline stdio servers, and calls over them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw

from armory.protocol.link import Call
from armory.testing.clients.recording import plain
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink

Start = Callable[..., Awaitable[StdioLink]]
PATHS = ":".join(path for path in sys.path if path)


def scripted(*options: str, **more: Any) -> UpstreamSpec:
    args = ("-m", "armory.testing.upstreams.stdio", "--era", "legacy", *options)
    env = {"PYTHONPATH": PATHS, **more.pop("env", {})}
    return UpstreamSpec("up", command=sys.executable, args=args, env=env, **more)


def inline(program: str, **more: Any) -> UpstreamSpec:
    return UpstreamSpec("up", command=sys.executable, args=("-c", program), **more)


async def call(link: StdioLink, tool: str, **more: Any) -> Any:
    params = {"name": Raw(f'"{tool}"'.encode())}
    reply = await link.request(Call("tools/call", params, **more))
    return plain(reply.result)
