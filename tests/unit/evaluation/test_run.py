"""From a folder to a report: reading, measuring, gates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armory.errors import BackendError, ConfigError
from armory.evaluation.dataset import load_dataset, load_uses
from armory.evaluation.metrics import calibration_error
from armory.evaluation.report import failure_json, missed_gates, parse_gate, to_json
from armory.evaluation.run import Setup, evaluate
from armory.retrieval.features import CandidateFeatures
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.rankers.base import RankSettings, Scores
from armory.retrieval.retriever import Retriever
from armory.testing.embedder import HashingEmbedder

Write = Callable[..., Path]
TOOLS: list[dict[str, Any]] = [
    {"id": f"t{i}", "name": f"tool{i}", "description": f"does thing{i}"} for i in range(4)
]
QUERIES: list[dict[str, Any]] = [
    {"id": "a", "query": "thing0", "relevant": ["t0"], "split": "dev"},
    {"id": "b", "query": "thing1 and thing2", "relevant": ["t1", "t2"], "split": "dev"},
    {"id": "c", "query": "hello", "relevant": [], "split": "test"},
]


class Oracle:
    """Says 0.9 for tools whose number is in the query, 0.1 for others; refuses greetings."""

    name = "relevance"

    def works_without_vectors(self, tools: int) -> bool:
        return True

    def rank(self, features: CandidateFeatures, settings: RankSettings) -> Scores:
        text = features.subqueries[0].text
        hit = [record.name[1:] in text for record in features.records]
        score = np.where(hit, 0.9, 0.1).astype(np.float32)
        return Scores(np.argsort(-score, kind="stable"), score, score, score, text == "hello")

    def reason(self, features: CandidateFeatures, scores: Scores, position: int) -> str:
        return ""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(tools: list[Any] = TOOLS, queries: list[Any] = QUERIES) -> Path:
        for name, rows in (("tools", tools), ("queries", queries)):
            lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
            (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        return tmp_path

    return to


async def measure(folder: Path, *, failures: int = 0, **setup: Any) -> Any:
    retriever = Retriever(HashingEmbedder(), ExactIndex(), {"relevance": Oracle()})
    async with retriever:
        return await evaluate(
            load_dataset(folder), retriever, Setup("fake", "exact", **setup), failures=failures
        )


@pytest.mark.anyio
async def test_the_report_has_exactly_these_keys_and_figures(write: Write) -> None:
    report = to_json(await measure(write()))
    assert list(report) == [
        "tools", "queries", "recall@1", "recall@5", "recall@10", "complete@5", "complete@10",
        "ndcg@10", "mrr", "threshold", "thresholds", "abstention_accuracy", "tokens",
        "latency_ms", "ece", "embedder", "ranker", "asked_ranker", "index",
    ]  # fmt: skip
    assert (report["tools"], report["queries"]) == (4, 3)
    assert (report["recall@1"], report["recall@5"]) == (0.75, 1.0)
    assert (report["complete@5"], report["ndcg@10"], report["mrr"]) == (1.0, 1.0, 1.0)
    assert report["threshold"] == {
        "value": 0.5, "recall": 1.0, "precision": 1.0, "f1": 1.0, "returned_mean": 1.5,
        "empty_share": 0.0,
    }  # fmt: skip
    assert [row["value"] for row in report["thresholds"]] == [i / 20 for i in range(1, 20)]
    first, last = report["thresholds"][0], report["thresholds"][-1]
    assert (first["returned_mean"], first["precision"], first["refused_share"]) == (4.0, 0.375, 1.0)
    assert (last["recall"], last["empty_share"]) == (0.0, 1.0)
    assert report["abstention_accuracy"] == 1.0
    assert report["tokens"].keys() == {"all", "returned_mean", "saved_share"}
    assert 0 < report["tokens"]["saved_share"] < 1
    assert report["ece"] == pytest.approx(0.1, abs=0.05)
    assert (report["embedder"], report["ranker"], report["index"]) == ("fake", "relevance", "exact")


@pytest.mark.anyio
async def test_the_calibration_error_is_over_the_first_twenty(write: Write) -> None:
    tools = [{"id": f"t{i}", "name": f"tool{i}", "description": "does it"} for i in range(30)]
    queries = [{"id": "a", "query": "thing7", "relevant": ["t7", "t13", "t29"]}]
    report = to_json(await measure(write(tools, queries)))
    wanted = np.zeros(20)
    wanted[[0, 13]] = 1  # t7 comes first, then the others in their order, t29 last
    expected = calibration_error(np.array([0.9] + [0.1] * 19), wanted)
    assert report["ece"] == pytest.approx(expected, abs=5e-5)


@pytest.mark.anyio
async def test_an_embedder_that_fails_ends_it_at_the_first_query(write: Write) -> None:
    embedder = HashingEmbedder()
    embedder.failure = BackendError("the embedding API is away")
    asked: list[int] = []
    async with Retriever(embedder, ExactIndex(), {"relevance": Oracle()}) as retriever:
        with pytest.raises(BackendError, match=r"nothing was measured: .* API is away"):
            await evaluate(
                load_dataset(write()),
                retriever,
                Setup("fake", "exact"),
                on_progress=lambda done, _: asked.append(done),
            )
    assert asked == []


@pytest.mark.anyio
async def test_failures_say_what_was_wanted_and_what_came(write: Write) -> None:
    result = await measure(write(), threshold=0.95, failures=1)
    (failure,) = result.failures
    shown = failure_json(failure)
    assert (shown["id"], shown["wanted"], shown["came"]) == ("a", ["t0"], [])
    assert (shown["missed"][0]["tool"], shown["missed"][0]["rank"]) == ("t0", 1)


@pytest.mark.anyio
async def test_without_no_tool_queries_abstention_is_null(write: Write) -> None:
    report = to_json(await measure(write(queries=QUERIES[:2])))
    assert report["abstention_accuracy"] is None
    assert report["thresholds"][0]["refused_share"] is None


def test_splits_and_limits(write: Write) -> None:
    folder = write()
    assert [q.id for q in load_dataset(folder, split="dev").queries] == ["a", "b"]
    few = load_dataset(folder, limit=2)
    assert len(few.queries) == 2
    assert few.queries == load_dataset(folder, limit=2).queries
    with pytest.raises(ConfigError, match=r"no query has split 'x'.* are dev, test"):
        load_dataset(folder, split="x")
    twins = write(queries=[{**QUERIES[0], "query": text} for text in ("one", "two", "three")])
    assert [q.text for q in load_dataset(twins, limit=2).queries] == ["one", "two"]


@pytest.mark.parametrize(
    ("tools", "queries", "said"),
    [
        (["{nonsense"], QUERIES, r"tools\.jsonl:1: not JSON"),
        (["[" * 100_000], QUERIES, r"tools\.jsonl:1: not JSON"),
        (["[]"], QUERIES, r"tools\.jsonl:1: list, expected an object"),
        ([{"id": "t0"}], QUERIES, r"tools\.jsonl:1: name is None"),
        ([TOOLS[0], TOOLS[0]], QUERIES, "'t0' is there twice"),
        ([], QUERIES, "no tools"),
        (TOOLS, [{"id": "a", "query": "x", "relevant": "t0"}], "expected a list"),
        (
            TOOLS,
            [{"id": "a", "query": "x", "relevant": [["a"]]}],
            r"relevant holds \['a'\], expected ids",
        ),
        (TOOLS, [{"id": "a", "query": "x", "relevant": ["t9"]}], r"unknown tools: \['t9'\]"),
        (TOOLS, [{"id": "a", "query": " ", "relevant": []}], "query is ' ', expected text"),
    ],
)
def test_malformed_sets_name_file_and_line(
    write: Write, tools: list[Any], queries: list[Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        load_dataset(write(tools, queries))


def test_every_mistake_of_a_file_is_told_at_once(write: Write) -> None:
    wrong = [{"id": str(number), "query": "x", "relevant": [f"u{number}"]} for number in range(25)]
    with pytest.raises(ConfigError) as raised:
        load_dataset(write(TOOLS, [QUERIES[0], "{nonsense", *wrong]))
    told = raised.value.message.splitlines()
    assert "queries.jsonl:2: not JSON" in told[0]
    assert told[1].endswith("queries.jsonl:3: relevant names unknown tools: ['u0']")
    assert told[20:] == ["and 6 more"]


def test_a_mark_of_byte_order_is_no_part_of_the_first_line(write: Write) -> None:
    folder = write(TOOLS, QUERIES)
    read = load_dataset(folder)
    for path in folder.glob("*.jsonl"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_dataset(folder) == read


def test_a_missing_file_of_a_data_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tools\.jsonl cannot be read: No such file"):
        load_dataset(tmp_path / "nowhere")


def test_uses_name_tools_of_the_catalog_alone(tmp_path: Path) -> None:
    path = tmp_path / "uses.jsonl"
    path.write_text('{"query": "q", "tool": "t1"}\n')
    assert [u.tool for u in load_uses(path, frozenset(["t1"]))] == ["t1"]
    with pytest.raises(ConfigError, match="unknown tool 't1'"):
        load_uses(path, frozenset())


def test_a_gate_is_missed_by_a_lower_figure_and_by_none() -> None:
    report = {
        "recall@5": 0.7,
        "threshold": {"recall": 0.9},
        "abstention_accuracy": None,
        "embedder": "x",
    }
    gates = [parse_gate("recall@5=0.8"), parse_gate("threshold.recall=0.9")]
    assert missed_gates(report, gates) == ["recall@5 is 0.7, wanted at least 0.8"]
    assert len(missed_gates(report, [parse_gate("abstention_accuracy=0.1")])) == 1
    for text in ("recall@5", "=1", "a=b", "recall@5=nan"):
        with pytest.raises(ConfigError, match="FIGURE=NUMBER"):
            parse_gate(text)
    for text in ("nonsense=1", "threshold=1", "embedder=1"):
        with pytest.raises(ConfigError, match=f"--min {text[:-2]}"):
            missed_gates(report, [parse_gate(text)])
