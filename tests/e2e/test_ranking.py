"""Named rankers on every surface, and constants fitted to the configured upstreams."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from mcp import Client

from armory.cli.local import opened, tools_of
from armory.cli.options import loaded_config
from tests.threaded import Answering, served

pytestmark = pytest.mark.timeout(300)
QUERY = "convert a time to another time zone"
WANTED = "time__convert_time"


class Refusing(Answering):
    """Refuses every key."""

    def do_POST(self) -> None:
        self.say(b"{}", status=401)


async def listed(url: str, ranker: str) -> set[str]:
    meta: Any = {"dev.armory/query": QUERY, "dev.armory/ranker": ranker}
    async with Client(url) as client:
        return {tool.name for tool in (await client.list_tools(meta=meta)).tools}


def test_multi_factor_on_every_surface(
    serve: Callable[..., Any],
    armory: Callable[..., Any],
    demo_upstreams: dict[str, Any],
    tmp_path: Path,
) -> None:
    config: dict[str, Any] = {"upstreams": demo_upstreams, "tool_rag": {"ranker": "multi_factor"}}
    config["storage"] = {"url": f"sqlite:///{tmp_path / 'ranking.db'}"}
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump(config))
    done = armory("search", QUERY, "--ranker", "multi_factor", "--json")
    assert done.returncode == 0, done.stderr
    assert WANTED in done.stdout

    served = serve(config).searchable()
    assert WANTED in anyio.run(listed, served.url, "multi_factor")
    request = urllib.request.Request(f"{served.base}/v1/retrieve_tools")
    request.data = json.dumps({"query": QUERY, "ranker": "multi_factor"}).encode()
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert json.load(answer)["tools"][0]["name"] == WANTED


def test_tuning_to_the_configured_upstreams(
    armory: Callable[..., Any], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    for ranker, fitted in (("relevance", "relevance"), ("multi_factor", "semantic")):
        config = {"upstreams": demo_upstreams, "tool_rag": {"ranker": ranker}}
        (tmp_path / "armory.yaml").write_text(yaml.safe_dump(config))
        done = armory("tune", "--json", env={"ARMORY_DEBUG": "1"})  # a warning shows where
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["ranker"], told["queries"]) == (fitted, 28)
        assert fitted in json.loads(Path(told["written"]).read_text())["rankers"]
        found = armory("search", QUERY, "--json")
        assert found.returncode == 0, found.stderr
        assert WANTED in found.stdout


def test_it_is_tuned_to_tools_that_are_not_indexed_yet(
    demo_upstreams: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wait in ("FIRST_INDEX_S", "INDEX_S"):
        monkeypatch.setattr(f"armory.runtime.catalog.keeper.{wait}", 0.0)
    path = tmp_path / "armory.yaml"
    path.write_text(yaml.safe_dump({"upstreams": demo_upstreams}))

    async def found() -> int:
        async with opened(loaded_config(str(path))) as runtime:
            return len(tools_of(runtime)[0])

    assert asyncio.run(found()) == 14


def test_a_command_searches_what_takes_long_to_index(
    armory: Callable[..., Any],
    demo_upstreams: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for wait in ("FIRST_INDEX_S", "INDEX_S"):
        monkeypatch.setattr(f"armory.runtime.catalog.keeper.{wait}", 0.0)
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump({"upstreams": demo_upstreams}))
    found = json.loads(armory("search", QUERY, "--json").stdout)
    assert (found["degraded"], WANTED in [tool["name"] for tool in found["tools"]]) == (None, True)
    answer = json.loads(armory("tools", "--query", QUERY, "--json").stdout)
    assert WANTED in [tool["name"] for tool in answer["tools"]]


def test_who_runs_a_search_is_told_where_the_embeddings_api_is(
    armory: Callable[..., Any], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    with served(Refusing) as api:
        openai = {"api_key": "k", "base_url": f"{api}/v1"}
        rag = {"embedding_model": "text-embedding-3-small", "openai": openai}
        config = {"upstreams": {"time": demo_upstreams["time"]}, "tool_rag": rag}
        (tmp_path / "armory.yaml").write_text(yaml.safe_dump(config))
        found = json.loads(armory("search", QUERY, "--json").stdout)
    assert f"the embeddings API at {api}/v1 refused the key" in found["degraded"]
