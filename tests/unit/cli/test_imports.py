"""What each command loads: only what it needs, so that it answers at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from armory.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("\\nloaded", *sys.modules)
"""
SERVE = """
import asyncio, pathlib, sys
import armory.cli.gateway.serve
from armory.config import find_config
from armory.runtime.checking import checked
from armory.runtime.opening import open_runtime

loaded = {}

def listening(_):
    loaded["before"] = list(sys.modules)

async def serve():
    file = checked(find_config(None))
    async with open_runtime(file, address=("127.0.0.1", 0), on_listening=listening):
        loaded["after"] = list(sys.modules)

asyncio.run(serve())
print("\\nloaded", *loaded[sys.argv[1]])
"""
SPARED = """
import atexit, gc, sys
atexit.register(lambda: print("\\nloaded", gc.get_threshold()[0], gc.get_freeze_count()))
from armory.cli.main import main
main(sys.argv[1:])
"""
SDKS = ("mcp", "mcp_types", "openai", "qdrant_client", "onnxruntime", "tokenizers", "jwt")
DATABASE = ("sqlalchemy", "alembic")
HTTP = ("aiohttp", "httptools")
ARRAYS = ("numpy", "armory.retrieval.features")
LOG = ("structlog", "rich.traceback", "pygments")
MODELS = ("pydantic", "armory.config.model")
FOLDERS = ("platformdirs",)  # $ARMORY_HOME says which
GATEWAY = (
    "aiohttp.web",
    "armory.agent.loop",
    "armory.gateway.gateway",
    "armory.runtime.running",
    "armory.web.app",
    "armory.wire.dispatch",
)
REMOTE = (
    *SDKS,
    *DATABASE,
    *GATEWAY,
    "armory.retrieval.retriever",
    "armory.retrieval.features",
    "armory.accounts.service",
)
LISTING = (
    "asyncio",
    *FOLDERS,
    "armory.accounts.service",
    "armory.storage.database",
    *LOG,
    *ARRAYS,
    *SDKS,
    *HTTP,
    *DATABASE,
    *GATEWAY,
)
NOWHERE = ("--url", "http://127.0.0.1:1/mcp")


def loaded(arguments: tuple[str, ...], folder: Path, program: str = PROGRAM) -> set[str]:
    """The modules that a process has imported when the command ends."""
    (folder / "armory.yaml").write_text("upstreams:\n  here:\n    url: http://127.0.0.1:1/mcp\n")
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env={**os.environ, "ARMORY_HOME": str(folder / "home")},  # an old database loads Alembic
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "unexpected" not in done.stderr
    return set(done.stdout.rpartition("\nloaded ")[2].split())


@pytest.mark.parametrize(
    ("arguments", "needed", "unwanted"),
    [
        (
            ("packs", "list"),
            "sqlalchemy",
            ("alembic", "sqlalchemy.orm", *LOG, *ARRAYS, *SDKS, *HTTP, *GATEWAY),
        ),
        (("keys", "list"), "sqlite3", LISTING),
        (("users", "list"), "sqlite3", LISTING),
        (
            ("validate",),
            "armory.config.model",
            ("asyncio", *FOLDERS, *LOG, *ARRAYS, *SDKS, *HTTP, *DATABASE, *GATEWAY),
        ),
        (
            ("status", "--url", "http://127.0.0.1:1"),
            "armory.config.home",
            ("asyncio", *LOG, *ARRAYS, *HTTP, *MODELS, *REMOTE),
        ),
        (("tools", *NOWHERE), "httptools", ("aiohttp", *LOG, *ARRAYS, *MODELS, *REMOTE)),
        (("call", *NOWHERE, "tool"), "httptools", ("aiohttp", *LOG, *ARRAYS, *MODELS, *REMOTE)),
        (("search", *NOWHERE, "words"), "httptools", ("aiohttp", *LOG, *ARRAYS, *MODELS, *REMOTE)),
    ],
    ids=["packs", "keys", "users", "validate", "status", "tools", "call", "search"],
)
def test_a_command_loads_only_what_it_needs(
    tmp_path: Path, arguments: tuple[str, ...], needed: str, unwanted: tuple[str, ...]
) -> None:
    if arguments[-1] == "list":
        loaded(arguments, tmp_path)  # makes the database
    modules = loaded(arguments, tmp_path)
    assert needed in modules
    assert modules.isdisjoint(unwanted), sorted(modules.intersection(unwanted))


def test_serving_loads_what_a_port_needs_until_it_listens(tmp_path: Path) -> None:
    modules = loaded(("before",), tmp_path, SERVE)
    late = (
        *SDKS,
        *DATABASE,
        *ARRAYS,
        *LOG,
        "rich",
        "httptools",
        "prometheus_client",
        "rapidfuzz",
        "toon_format",
        "armory.accounts.service",
        "armory.agent.loop",
        "armory.gateway.gateway",
        "armory.openapi",
        "armory.retrieval.retriever",
        "armory.runtime.running",
        "armory.upstreams.pool",
        "armory.web.rest",
        "armory.wire.dispatch",
        "armory.wire.http.edge",
    )
    assert "armory.web.app" in modules
    assert modules.isdisjoint(late), sorted(modules.intersection(late))


def test_serving_loads_what_calls_need_and_the_rest_when_it_is_wanted(tmp_path: Path) -> None:
    modules = loaded(("after",), tmp_path, SERVE)
    late = (
        *SDKS,
        "alembic",
        "sqlalchemy.orm",
        "snowballstemmer",
        "asyncpg",
        "redis",
        "faiss",
        "cryptography.hazmat.bindings",
    )
    assert "armory.wire.http.edge" in modules
    assert modules.isdisjoint(late), sorted(modules.intersection(late))


def test_what_a_command_loads_is_not_gone_through_for_garbage(tmp_path: Path) -> None:
    threshold, spared = sorted(map(int, loaded(("keys", "list"), tmp_path, SPARED)))
    assert (threshold, spared > threshold) == (50_000, True)
