"""Calls at a steady rate, modern and in legacy sessions, and what became of each.

Owns: the load and its count. Stands alone on Armory's wheel and aiohttp, so that it runs inside a
cluster as well as beside one.

    python driver.py --url http://127.0.0.1:8080/mcp --tool plain__echo --stop /tmp/stop

It ends, and prints its count as one line of JSON, when the file that `--stop` names is there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp

from armory.testing.clients.raw import modern_body, modern_headers

LEGACY = "2025-11-25"
KEPT_S = 5.0
"""An idle connection is used again for so long, as by httpx, which the Python SDK's clients use."""
SLOW_S = 1.0
"""A call that took longer is listed, with where its time went."""
SLOW_LISTED = 40


class Refused(Exception):
    """A call that was not answered as it should have been; says how."""


class Driver:
    """The load.

    Args:
        url: of the MCP endpoint.
        token: bearer token; empty for none.
        tool: called without arguments.
        timeout_s: longest wait for one call.
    """

    def __init__(self, url: str, token: str, tool: str, timeout_s: float) -> None:
        self.url, self.tool = url, tool
        self.count: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.failed_at: list[float] = []
        self.took: list[float] = []
        self.slow: list[dict[str, float]] = []
        self.late_s = 0.0
        self.at_once = 0
        self._syn_again = _syn_again()
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._http: aiohttp.ClientSession | None = None
        self._idle: asyncio.Queue[str] = asyncio.Queue()
        self._began = time.monotonic()

    async def run(
        self, rate: float, sessions: int, share: float, stop: Path, begun: Path | None = None
    ) -> dict[str, Any]:
        """Call until `stop` is there.

        Each call is sent when it is due, however many are under way: a client does not know of
        the others. What is not answered within the timeout has failed.

        Args:
            rate: calls a second, both kinds together.
            sessions: legacy sessions; their calls take turns in them.
            share: of the calls that are made in legacy sessions, 0 to 1.
            stop: a file.
            begun: a file that is made when the sessions have begun and calls come; None: none is.
        """
        running: set[asyncio.Task[None]] = set()
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=KEPT_S)
        async with aiohttp.ClientSession(
            connector=connector, trace_configs=[_connecting()]
        ) as http:
            self._http = http
            timeout, self._timeout = self._timeout, aiohttp.ClientTimeout(total=60)
            for _ in range(sessions):  # before the load: however long they take
                self._idle.put_nowait(await self._begin())
            self._timeout = timeout
            if begun is not None:
                await asyncio.to_thread(begun.touch)
            self._began = due = time.monotonic()
            owed = 0.0
            while not await asyncio.to_thread(stop.exists):
                now = time.monotonic()
                self.late_s = max(self.late_s, now - due)
                while due <= now:
                    due += 1 / rate
                    owed += share if sessions else 0.0
                    legacy, owed = owed >= 1, owed - (owed >= 1)
                    task = asyncio.create_task(self._one(legacy=legacy))
                    running.add(task)
                    task.add_done_callback(running.discard)
                self.at_once = max(self.at_once, len(running))
                await asyncio.sleep(max(0.0, min(0.05, due - time.monotonic())))
            took_s = time.monotonic() - self._began
            if running:
                await asyncio.wait(running)
        return self._told(took_s)

    async def _one(self, *, legacy: bool) -> None:
        began = time.monotonic()
        spent = _SPENT.get().copy()
        _SPENT.set(spent)  # a task of its own: nobody else's
        try:
            await (self._in_session() if legacy else self._modern())
        except Refused as error:
            self._failed(f"{'legacy' if legacy else 'modern'}: {error}")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            where = "kept" if spent.get("kept") else "new"
            self._failed(f"{'legacy' if legacy else 'modern'}: {error!r}, {where} connection")
        else:
            self.count["legacy" if legacy else "modern"] += 1
            self.took.append(time.monotonic() - began)
        finally:
            self._slow(began, spent)

    async def _modern(self) -> None:
        body = modern_body(1, "tools/call", {"name": self.tool, "arguments": {}})
        status, answer, _ = await self._post(body, modern_headers(body))
        self._good(status, answer)

    async def _in_session(self) -> None:
        began = time.monotonic()
        session = await self._idle.get()
        _SPENT.get()["for_a_session_s"] = time.monotonic() - began
        try:
            status, answer = await self._call(session)
            if status == 404:  # what a client does: begin anew, once
                self.count["ended"] += 1
                session = await self._begin()
                status, answer = await self._call(session)
                if status == 404:
                    raise Refused("404 in a session that has just begun")
            self._good(status, answer)
        finally:
            self._idle.put_nowait(session)

    async def _call(self, session: str) -> tuple[int, Any]:
        params = {"name": self.tool, "arguments": {}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
        status, answer, _ = await self._post(body, headers)
        return status, answer

    async def _begin(self) -> str:
        params = {
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "driver", "version": "0"},
        }
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        # a connection of its own: sessions begin at every replica, not where the last call went
        status, answer, session = await self._post(body, {"Connection": "close"})
        if status != 200 or not session:
            raise Refused(f"initialize: {status} {answer}")
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
        status, answer, _ = await self._post(done, headers)
        if status != 202:
            # its replica may be gone already: that is the one 404
            if status == 404:
                return session
            raise Refused(f"initialized: {status} {answer}")
        return session

    async def _post(self, body: Any, headers: dict[str, str]) -> tuple[int, Any, str]:
        assert self._http is not None
        sent = {"Accept": "application/json, text/event-stream", **headers, **self._headers}
        async with self._http.post(
            self.url, json=body, headers=sent, timeout=self._timeout
        ) as response:
            text = await response.text()
            session = response.headers.get("Mcp-Session-Id", "")
            if response.content_type == "text/event-stream":
                data = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
                text = data[-1] if data else "null"
            try:
                return response.status, json.loads(text or "null"), session
            except ValueError:
                return response.status, text[:200], session

    @staticmethod
    def _good(status: int, answer: Any) -> None:
        result = answer.get("result") if isinstance(answer, dict) else None
        if status != 200 or not isinstance(result, dict) or result.get("isError"):
            raise Refused(f"{status} {json.dumps(answer)[:300]}")

    def _slow(self, began: float, spent: dict[str, float]) -> None:
        took = time.monotonic() - began
        if took > SLOW_S:
            at = began - self._began
            told = {"at_s": at, "took_s": took, **spent}
            self.slow.append({key: round(value, 2) for key, value in told.items()})

    def _failed(self, why: str) -> None:
        self.errors[why] += 1
        self.failed_at.append(round(time.monotonic() - self._began, 2))

    def _told(self, took_s: float) -> dict[str, Any]:
        took = sorted(self.took) or [0.0]

        def part(share: float) -> float:
            return round(took[min(len(took) - 1, int(share * len(took)))] * 1_000, 1)

        good = self.count["modern"] + self.count["legacy"]
        return {
            "modern": self.count["modern"],
            "legacy": self.count["legacy"],
            "sessions_ended": self.count["ended"],
            "failed": sum(self.errors.values()),
            "errors": dict(self.errors.most_common(10)),
            "failed_at_s": self.failed_at[:200],
            "seconds": round(took_s, 1),
            "calls_a_second": round(good / took_s, 1),
            "p50_ms": part(0.5),
            "p99_ms": part(0.99),
            "longest_ms": part(1.0),
            "at_once": self.at_once,
            "connections_tried_again": _syn_again() - self._syn_again,
            "sent_late_s": round(self.late_s, 2),
            "slow": len(self.slow),
            "slowest": sorted(self.slow, key=lambda call: -call["took_s"])[:SLOW_LISTED],
        }


def _syn_again() -> int:
    """How often a connection had to be asked for again, by all of this network namespace."""
    try:
        lines = Path("/proc/net/netstat").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return 0
    names, values = (line.split() for line in lines if line.startswith("TcpExt:"))
    return int(dict(zip(names, values, strict=True)).get("TCPSynRetrans", 0))


_SPENT: ContextVar[dict[str, float]] = ContextVar("_SPENT", default={})  # noqa: B039 - copied


def _connecting() -> aiohttp.TraceConfig:
    """Adds to what a call spent how long it waited for a new connection."""
    trace = aiohttp.TraceConfig()

    async def began(_: object, seen: SimpleNamespace, __: object) -> None:
        seen.began = time.monotonic()
        _SPENT.get()["kept"] = 0.0

    async def ended(_: object, seen: SimpleNamespace, __: object) -> None:
        spent = _SPENT.get()
        spent["connecting_s"] = spent.get("connecting_s", 0.0) + time.monotonic() - seen.began

    async def kept(_: object, __: object, ___: object) -> None:
        _SPENT.get()["kept"] = 1.0

    trace.on_connection_reuseconn.append(kept)
    trace.on_connection_create_start.append(began)
    trace.on_connection_create_end.append(ended)
    return trace


def main() -> None:
    """Run until told to stop."""
    parser = argparse.ArgumentParser(description="Call at a steady rate and count.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--stop", type=Path, required=True)
    parser.add_argument("--begun", type=Path)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--timeout", type=float, default=30.0)
    given = parser.parse_args()
    driver = Driver(given.url, os.environ.get("ARMORY_TOKEN", ""), given.tool, given.timeout)
    told = asyncio.run(driver.run(given.rate, given.sessions, given.share, given.stop, given.begun))
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
