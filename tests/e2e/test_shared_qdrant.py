"""A gateway in use, while others touch its Qdrant collection and while Qdrant is killed."""

from __future__ import annotations

import json
import shutil
import sys
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from armory.testing.servers import QdrantProcess

pytestmark = pytest.mark.timeout(300)
QUERIES = (
    "convert a time to another time zone",
    "write down a note",
    "what did I write",
    "weather",
)
AT_ONCE = 16


@pytest.fixture
def qdrant(tmp_path: Path) -> Iterator[QdrantProcess]:
    """A server that keeps its points while it is away."""
    if shutil.which("qdrant") is None:
        pytest.skip("there is no qdrant on the PATH")
    (tmp_path / "qdrant").mkdir()
    process = QdrantProcess(tmp_path / "qdrant")
    yield process
    process.kill()


def search(base: str, text: str) -> dict[str, Any]:
    """What a gateway lists for a text, and why."""
    asked = urllib.request.Request(f"{base}/v1/search")
    asked.data = json.dumps({"queries": [text]}).encode()
    asked.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)


def answers(base: str) -> list[Any]:
    """Every query's list, its scores, and whether it was made by words alone."""
    found = [search(base, text) for text in QUERIES]
    return [
        ([(one["name"], round(one["score"], 3)) for one in each["candidates"]], each["degraded"])
        for each in found
    ]


def test_what_others_do_in_the_collection_changes_no_answer(
    serve: Callable[..., Any],
    armory: Callable[..., Any],
    demo_upstreams: dict[str, Any],
    qdrant: QdrantProcess,
    tmp_path: Path,
) -> None:
    rag: dict[str, Any] = {"index": "qdrant", "qdrant": {"url": qdrant.url}}
    mine = serve({"upstreams": demo_upstreams, "tool_rag": rag}).ready()
    before = answers(mine.base)
    assert all(found and degraded is None for found, degraded in before)

    folder = tmp_path / "labelled"
    folder.mkdir()
    names = {name for found, _ in before for name, _ in found}
    tools = [
        {"id": name, "name": name, "description": f"Another text, number {number}"}
        for number, name in enumerate(sorted(names))
    ]
    asked = [
        {
            "id": f"{tool['id']}{i}",
            "query": f"{text} {tool['description']}",
            "relevant": [tool["id"]],
        }
        for tool in tools
        for i, text in enumerate(("find", "show"))
    ]
    for file, rows in (("tools", tools), ("queries", asked)):
        (folder / f"{file}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    gone = {"command": sys.executable, "args": ["-c", "raise SystemExit('away')"]}
    less = {"upstreams": {**demo_upstreams, "time": gone}, "tool_rag": rag}
    (tmp_path / "armory.yaml").write_text(yaml.safe_dump(less))
    elsewhere = {"ARMORY_HOME": str(tmp_path / "elsewhere")}
    for command in (("eval", str(folder)), ("tune", str(folder)), ("search", QUERIES[1])):
        done = armory(*command, env=elsewhere)
        assert done.returncode == 0, done.stderr
        assert answers(mine.base) == before, command[0]

    another = serve({"upstreams": {"other": demo_upstreams["notes"]}, "tool_rag": rag}).ready()
    assert all(degraded is None for _, degraded in answers(another.base))
    assert answers(mine.base) == before
    another.stop()
    assert answers(mine.base) == before


def test_words_answer_while_qdrant_is_killed(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], qdrant: QdrantProcess
) -> None:
    rag = {"index": "qdrant", "qdrant": {"url": qdrant.url}}
    mine = serve({"upstreams": demo_upstreams, "tool_rag": rag}).ready()
    before = answers(mine.base)
    assert all(found and degraded is None for found, degraded in before)
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def at_once() -> list[dict[str, Any]]:
            return list(pool.map(search, [mine.base] * AT_ONCE, QUERIES[:1] * AT_ONCE))

        qdrant.kill()
        for found in at_once() + at_once():
            assert f"Qdrant at {qdrant.url} does not answer" in found["degraded"]
            assert "time__convert_time" in found["listed"]
        mine.wait_for("vector_store_away")
        assert qdrant.url in json.dumps(mine.readiness()[1])

        qdrant.start()
        mine.wait_for("vector_store_back")
        while any(found["degraded"] for found in at_once()):
            pass
    assert answers(mine.base) == before
