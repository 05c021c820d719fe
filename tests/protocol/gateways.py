"""A gateway of a test's own configuration, in this process.

Owns: `running`. It listens on a port that the system chooses.
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
