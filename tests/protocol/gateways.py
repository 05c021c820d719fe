"""A gateway of a test's own configuration, in this process.

Owns: `running`, on a port that the system chooses, and `GatewayClient`, which asks it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from armory.config import load_file
from armory.runtime import open_runtime
from armory.runtime.running import Runtime
from armory.testing.clients.raw import messages, modern_body, modern_headers


@dataclass(frozen=True)
class Running:
    """A gateway that runs.

    Attributes:
        url: where it listens.
        http: a client.
    """

    runtime: Runtime
    url: str
    http: aiohttp.ClientSession


@dataclass
class GatewayClient:
    """Asks a gateway by the modern revision.

    Attributes:
        url: where it listens.
        http: a client.
    """

    url: str
    http: aiohttp.ClientSession

    async def ask(
        self,
        method: str,
        params: Any = None,
        *,
        at: str = "/mcp",
        who: str = "ann",
        capabilities: dict[str, Any] | None = None,
    ) -> Any:
        """The answer to a request with the token `token-of-WHO`."""
        body = modern_body(1, method, params, capabilities=capabilities)
        headers = {**modern_headers(body), "Authorization": f"Bearer token-of-{who}"}
        async with self.http.post(self.url + at, json=body, headers=headers) as response:
            return (await messages(response))[-1]

    async def result(self, method: str, params: Any = None, **more: Any) -> Any:
        """The result of a request that must not fail."""
        answer = await self.ask(method, params, **more)
        assert "result" in answer, answer
        return answer["result"]


@asynccontextmanager
async def running(folder: Path, config: dict[str, Any]) -> AsyncGenerator[Running]:
    """A gateway of this configuration, once all its tools can be found."""
    file = folder / "armory.yaml"
    file.write_text(yaml.safe_dump(config))
    async with (
        open_runtime(load_file(file), address=("127.0.0.1", 0)) as runtime,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as http,
    ):
        await runtime.searchable()
        assert runtime.listening is not None
        yield Running(runtime, runtime.listening.url.removesuffix("/mcp"), http)
