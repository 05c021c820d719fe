"""The benchmarks behind the public numbers: reading, counting, and what their tables say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quality import livemcp, livemcp_tasks, rrb, summary, tokens

SAMPLE = {
    "query": "a QR code of my page",
    "complexity": "easy",
    "tool": {"tool_name": "Codes&&Draw", "tool_description": "QR codes"},
    "analyzed_tools": [
        {
            "tool_name": "Codes&&Draw",
            "tool_title": "Codes",
            "tool_description": "QR codes",
            "api_title": "Draw",
            "api_description": "Draws one",
        },
        {"tool_name": "Mail&&Send", "tool_description": "Mail"},
    ],
}


def written(folder: Path, *samples: Any) -> Path:
    path = folder / rrb.FILE
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(json.dumps(sample) for sample in samples), encoding="utf-8")
    return path


def test_samples_of_toolsense_are_read_as_a_catalog_each(tmp_path: Path) -> None:
    several = SAMPLE | {"complexity": "medium", "tool": SAMPLE["analyzed_tools"]}
    path = written(tmp_path, SAMPLE, several)
    assert rrb.file_of(tmp_path) == rrb.file_of(path.parent) == rrb.file_of(path) == path
    one, both = rrb.read(path)
    assert (one.tier, one.wanted, len(one.tools)) == ("easy", {"Codes&&Draw"}, 2)
    assert both.wanted == {"Codes&&Draw", "Mail&&Send"}
    drawn, sent = one.tools
    assert (drawn.server, drawn.original_name) == ("Codes", "Draw")
    assert drawn.description == "Draws one\nQR codes"
    assert (sent.server, sent.original_name, sent.description) == ("Mail", "Send", "Mail")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"complexity": "harder"}, "harder"),
        ({"tool": {"tool_name": "Elsewhere&&Go", "tool_description": ""}}, "Elsewhere&&Go"),
        ({"tool": []}, "expected query"),
        ({"analyzed_tools": "none"}, "expected query"),
    ],
)
def test_a_sample_that_is_none_is_named_by_its_line(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    path = written(tmp_path, SAMPLE, SAMPLE | change)
    with pytest.raises(SystemExit, match=said) as refused:
        rrb.read(path)
    assert f"{path}:2: " in str(refused.value)


def test_what_is_not_there_is_named_with_where_to_fetch_it(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"git clone https://github\.com/SAP/toolsense"):
        rrb.file_of(tmp_path)
    with pytest.raises(SystemExit, match=r"icip-cas/LiveMCPBench"):
        livemcp.main([str(tmp_path), "--out", str(tmp_path / "out.json")])
    assert not (tmp_path / "out.json").exists()


def test_a_request_carries_all_before_it() -> None:
    whole = tokens.cost(100, 30, [5, 7, 1], 0.5)
    assert (whole.requests, whole.context, whole.sent) == (3, 113, 105 + 112 + 113)
    assert (whole.management, whole.found) == (30, 0.5)
    assert tokens.wrapped("tool") > tokens.call("tool")


def test_part_of_the_tasks_is_said_to_be_a_part() -> None:
    found: dict[str, Any] = {"made": {"python": "3"}, "tools": 9, "servers": 2, "of": 94}
    found |= {"rows": [], "on record": [], "published": [{"system": "other", "recall@5": 53.5}]}
    assert "the 44 labelled tasks of 94" in summary.livemcp(found | {"tasks": 44})
    whole = summary.livemcp(found | {"tasks": 94})
    assert "all 94 tasks; 9 tools" in whole
    assert "roughly" not in whole


def a_task(name: str, said: str) -> dict[str, Any]:
    return {"task_id": name, "Question": f"do {name}", "Annotator Metadata": {"Tools": said}}


def a_server(name: str, *tools: str) -> dict[str, Any]:
    block = {"tools": [{"name": tool, "description": f"does {tool}"} for tool in tools]}
    return {"name": name.upper(), "tools": {name: block}}


def checked_out(folder: Path) -> Path:
    tasks = [
        a_task("one", "1. read\n2. chart\n3. gone"),
        a_task("two", "1. chart"),
        a_task("none", "1. gone"),
    ]
    servers = [a_server("files", "read", "write"), a_server("disk", "read"), a_server("x", "chart")]
    for name, content in (
        (livemcp_tasks.TASKS_FILE, tasks),
        (livemcp_tasks.TOOLS_FILE, servers),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_a_checkout_of_livemcpbench_gives_tasks_with_every_tool_so_named(tmp_path: Path) -> None:
    dataset, told = livemcp_tasks.read_checkout(checked_out(tmp_path))
    assert [tool.name for tool in dataset.tools] == [
        "files::read",
        "files::write",
        "disk::read",
        "x::chart",
    ]
    assert dataset.tools[2].server_title == "DISK"
    assert {query.id: set(query.relevant) for query in dataset.queries} == {
        "one": {"files::read", "disk::read", "x::chart"},
        "two": {"x::chart"},
    }
    assert told == {
        "annotated": 3,
        "without a tool of the catalog": 1,
        "unknown names": ["gone", "gone"],
        "names on several servers": {"read": 1},
        "tasks that want more than five": 0,
        "best recall@5": 100.0,
    }
    with pytest.raises(SystemExit, match=r"expected: a checkout of .*icip-cas/LiveMCPBench"):
        livemcp_tasks.read_checkout(tmp_path / "elsewhere")


def test_tasks_of_a_checkout_are_told_apart_by_what_data_has(tmp_path: Path) -> None:
    checkout, out = checked_out(tmp_path / "checkout"), tmp_path / "out.json"
    own = tmp_path / livemcp.SET
    own.mkdir()
    (own / "tools.jsonl").write_text('{"id": "x::chart", "name": "chart"}\n', encoding="utf-8")
    asked = {"id": "two", "query": "do two", "relevant": ["x::chart"]}
    (own / "queries.jsonl").write_text(json.dumps(asked) + "\n", encoding="utf-8")
    livemcp.main([str(tmp_path), "--checkout", str(checkout), "--out", str(out)])
    found = json.loads(out.read_text(encoding="utf-8"))
    for row in found["rows"]:
        assert [row[part]["tasks"] for part in ("all", "of DATA", "others")] == [2, 1, 1]
        assert row["others"]["recall@5"] == 100.0
    table = summary.livemcp(found | {"of": 2})
    assert "all 2 tasks: recall@5" in table
    assert "1 are of tools on several servers, 1 times" in table
    widths = {line.count("|") for line in table.splitlines() if line.startswith("|")}
    assert len(widths) == 1
