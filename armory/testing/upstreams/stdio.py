"""A scripted stdio server: `python -m armory.testing.upstreams.stdio --era legacy`.

Owns: the program and its line transport. Never imports the gateway.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from armory.tasks import spawn
from armory.testing.upstreams.exchange import DRAFT, LEGACY, PREFIX, Json, Questions, notification
from armory.testing.upstreams.script import Script


class _Wire:
    """One request over standard output."""

    def __init__(self, server: Server, era: str, capabilities: Mapping[str, Any]) -> None:
        self._server = server
        self.era = era
        self.capabilities = capabilities
        self.session = str(os.getpid())

    async def send(self, message: Json) -> None:
        self._server.write(json.dumps(message).encode())

    async def send_bytes(self, data: bytes) -> None:
        self._server.write(data)

    async def ask(self, method: str, params: Json) -> Json:
        return await self._server.ask(method, params)

    async def announce(self, method: str, params: Json) -> None:
        self._server.announce(method, params, self.era)

    async def crash(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Server:
    """Serves one client over standard input and output.

    Args:
        script: what to answer.
        eras: which eras it speaks: "modern", "legacy" or "both".
        exit_on_unknown: exit at a request before `initialize`, as old SDKs do.
        mute_on_unknown: answer nothing to a request before `initialize`.
    """

    def __init__(
        self,
        script: Script,
        eras: str,
        *,
        exit_on_unknown: bool = False,
        mute_on_unknown: bool = False,
    ) -> None:
        self.script = script
        self._eras = eras
        self._exit_on_unknown = exit_on_unknown
        self._mute_on_unknown = mute_on_unknown
        self._capabilities: Json = {}
        self._initialized = False
        self._questions = Questions()
        self._running: dict[Any, asyncio.Task[None]] = {}
        self._listening: Any = None
        self._renewing: asyncio.Task[None] | None = None

    def write(self, line: bytes) -> None:
        """Put one line out."""
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    async def ask(self, method: str, params: Json) -> Json:
        """A request to the client; its response."""
        message, answer = self._questions.ask(method, params)
        self.write(json.dumps(message).encode())
        return await answer

    async def run(self) -> None:
        """Until standard input ends."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self._take(json.loads(line))

    def _take(self, message: Json) -> None:
        self.script.received.append(message)
        if "method" not in message:
            self._questions.answered(message)
            return
        if "id" not in message:
            self._notified(message)
            return
        task = spawn(self._serve(message), "request")
        self._running[message["id"]] = task

    def _notified(self, message: Json) -> None:
        if message["method"] == "notifications/cancelled":
            request_id = message["params"]["requestId"]
            self.script.cancelled.append(request_id)
            task = self._running.get(request_id)
            if task is not None:
                task.cancel()
        elif message["method"] == "notifications/roots/list_changed":
            self._renewing = spawn(self._ask_roots(), "roots/list")

    async def _ask_roots(self) -> None:
        self.script.roots = (await self.ask("roots/list", {})).get("result")

    async def _serve(self, message: Json) -> None:
        params: Json = message.get("params") or {}
        meta: Json = params.get("_meta") or {}
        modern = f"{PREFIX}protocolVersion" in meta
        if message["method"] == "initialize":
            self._initialized = True
            self._capabilities = params["capabilities"]
        elif not self._initialized and not (modern and self._eras != "legacy"):
            if self._exit_on_unknown:
                os._exit(1)
            if self._mute_on_unknown:
                return
        era = "modern" if modern and self._eras != "legacy" else "legacy"
        if era == "legacy" and self._eras == "modern":
            error = {"code": -32022, "message": "x", "data": {"supported": ["2026-07-28"]}}
            self.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
            return
        if era == "modern" and message["method"] == "subscriptions/listen":
            self._listen(message)
            return
        capabilities = meta.get(f"{PREFIX}clientCapabilities", self._capabilities)
        answer = await self.script.answer(message, _Wire(self, era, capabilities))
        if answer is not None:
            self.write(json.dumps(answer).encode())

    def _listen(self, message: Json) -> None:
        self._listening = message["id"]
        params = {
            "notifications": message["params"]["notifications"],
            "_meta": {f"{PREFIX}subscriptionId": message["id"]},
        }
        note = {"method": "notifications/subscriptions/acknowledged", "params": params}
        self.write(json.dumps({"jsonrpc": "2.0", **note}).encode())

    def announce(self, method: str, params: Json, era: str) -> None:
        """Send a notification outside any request; without a handshake only to those who listen."""
        if self._listening is None and era == "modern":
            return
        if self._listening is not None:
            params = {**params, "_meta": {f"{PREFIX}subscriptionId": self._listening}}
        self.write(json.dumps(notification(method, params)).encode())


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--era", choices=("modern", "legacy", "both"), default="both")
    parser.add_argument("--revision", choices=(DRAFT, *LEGACY), default=LEGACY[-1])
    parser.add_argument("--exit-on-unknown", action="store_true")
    parser.add_argument("--mute-on-unknown", action="store_true")
    parser.add_argument("--exit-at-start", action="store_true")
    parser.add_argument("--ignore-sigterm", action="store_true")
    parser.add_argument("--ignore-eof", action="store_true")
    parser.add_argument("--with-child", action="store_true")
    parser.add_argument("--stderr", default="")
    parser.add_argument("--name", default="scripted")
    parser.add_argument("--needs", default="{}", help="capabilities by tool, as JSON")
    parser.add_argument("--needed-always", action="store_true")
    options = parser.parse_args()
    if options.stderr:
        sys.stderr.write(options.stderr + "\n")
        sys.stderr.flush()
    if options.exit_at_start:
        sys.exit(3)
    if options.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.with_child:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        os.environ["CHILD_PID"] = str(child.pid)
    needs = json.loads(options.needs)
    script = Script(
        name=options.name,
        revision=options.revision,
        needs=needs,
        needed_always=options.needed_always,
    )
    server = Server(
        script,
        options.era,
        exit_on_unknown=options.exit_on_unknown,
        mute_on_unknown=options.mute_on_unknown,
    )

    async def serve() -> None:
        await server.run()
        if options.ignore_eof:
            await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
