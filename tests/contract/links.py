"""A scripted upstream of each kind, and a pool in front of it.

Owns: `Rig`, and the kinds of upstreams that there are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

from msgspec import Raw

from armory.domain.principal import ANONYMOUS
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import RecordingClient, RecordingObserver, plain
from armory.testing.upstreams.exchange import Json
from armory.testing.upstreams.http import HttpUpstream
from armory.testing.upstreams.script import Script
from armory.upstreams.gateway_client import declared_by
from armory.upstreams.pool import Pool
from armory.upstreams.session.base import BaseLink
from armory.upstreams.spec import UpstreamSpec
from tests.leftovers import tasks_of

MODERN = ("http-modern", "http-modern-stream", "stdio-modern")
LEGACY = ("http-legacy", "http-legacy-stream", "sse", "stdio-legacy")
HTTP = {
    "http-modern": ("modern", False),
    "http-modern-stream": ("modern", True),
    "http-legacy": ("legacy", False),
    "http-legacy-stream": ("legacy", True),
    "http-both": ("both", False),
    "http-both-stream": ("both", True),
    "sse": ("", False),
}
BOUND_S = 10.0


class Rig:
    """A scripted upstream of one kind, and a pool in front of it."""

    def __init__(self, kind: str, server: HttpUpstream | None) -> None:
        self.kind = kind
        self.server = server
        self.observer = RecordingObserver()
        self.owner = Owner(ANONYMOUS)
        self.pool = Pool([self.spec()])
        self.pool.observers.add(self.observer)

    def spec(self, **more: Any) -> UpstreamSpec:
        if self.server is not None:
            url = self.server.sse_url if self.kind == "sse" else self.server.url
            return UpstreamSpec("up", url=url, **more)
        era = self.kind.removeprefix("stdio-")
        args = ("-m", "armory.testing.upstreams.stdio", "--era", era, *more.pop("args", ()))
        return UpstreamSpec("up", command=sys.executable, args=args, env=_paths(), **more)

    async def reconfigure(self, **more: Any) -> None:
        await self.pool.update([self.spec(**more)])

    @property
    def modern(self) -> bool:
        return self.kind in MODERN

    async def call(
        self,
        tool: str,
        arguments: Json | None = None,
        *,
        client: RecordingClient | None = None,
        meta: Json | None = None,
        owner: Owner | None = None,
        **more: Any,
    ) -> Any:
        """The tool's result; a JSON-RPC error as {"error": ...}."""
        params = {"name": raw(tool), "arguments": raw(arguments or {})}
        if meta is not None:
            params["_meta"] = raw(meta)
        call = Call("tools/call", params, client=client, name_header=tool, **more)
        reply = await self.pool.request("up", owner or self.owner, call)
        return plain(reply.result) if reply.error is None else {"error": plain(reply.error)}

    async def link(self, owner: Owner) -> BaseLink:
        """The session that serves `owner`, opened if need be."""
        return (await self.pool.upstream("up").links.opened(owner, declared_by(owner)))[1]

    async def report(self) -> Any:
        return (await self.call("report"))["structuredContent"]


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _paths() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}


async def open_rig(kind: str) -> AsyncGenerator[Rig]:
    if kind in HTTP:
        eras, stream = HTTP[kind]
        async with HttpUpstream(Script(), eras, stream=stream) as server:
            rig = Rig(kind, server)
            yield rig
            await rig.pool.close()
    else:
        rig = Rig(kind, None)
        yield rig
        await rig.pool.close()
    assert not tasks_of("/armory/"), "a task was left behind"
