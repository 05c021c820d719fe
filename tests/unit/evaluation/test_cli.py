"""`armory eval` and `armory tune` from the outside."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from armory.cli.main import cli
from armory.cli.quality.eval import options_of
from armory.errors import ConfigError
from armory.retrieval.registry import VECTORS_FILE, load_calibration

VERBS = ("paint", "weigh", "translate", "measure", "ship", "cook", "repair", "photograph")
THINGS = ("bicycle", "letter", "garden", "invoice")
EVERY = [f"{verb}_{thing}" for verb in VERBS for thing in THINGS]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARMORY_CONFIG", raising=False)
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    pairs = [(verb, thing) for verb in VERBS for thing in THINGS]
    tools = [
        {"id": f"{v}_{t}", "name": f"{v}_{t}", "description": f"{v.title()} a {t} for you"}
        for v, t in pairs
    ]
    queries: list[dict[str, Any]] = [
        {"id": f"q{i}", "query": f"could you {v} my {t}?", "relevant": [f"{v}_{t}"]}
        for i, (v, t) in enumerate(pairs)
    ]
    queries.append({"id": "none", "query": "why is the sky blue?", "relevant": []})
    for name, rows in (("tools", tools), ("queries", queries)):
        text = "\n".join(map(json.dumps, rows))
        (tmp_path / f"{name}.jsonl").write_text(text)
    return tmp_path


def test_eval_as_json_and_as_a_gate(folder: Path) -> None:
    runner = CliRunner()
    options = [str(folder), "--embedder", "none", "--json"]
    done = runner.invoke(cli, ["eval", *options, "--min", "recall@5=0.9", "--failures", "2"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["tools"], report["queries"], report["ranker"]) == (32, 33, "lexical")
    assert report["recall@5"] > 0.9
    missed = runner.invoke(cli, ["eval", *options, "--min", "threshold.precision=1.01"])
    assert missed.exit_code == 1
    assert "wanted at least 1.01" in missed.stderr
    assert json.loads(missed.stdout)["tools"] == 32


@pytest.mark.parametrize("asked", ["hybrid", "semantic", "multi_factor", "lexical"])
def test_eval_names_the_ranker_that_ranked(folder: Path, asked: str) -> None:
    options = ["eval", str(folder), "--embedder", "none", "--ranker", asked]
    report = json.loads(CliRunner().invoke(cli, [*options, "--json"]).stdout)
    assert (report["ranker"], report["asked_ranker"]) == ("lexical", asked)
    said = "lexical in place of" if asked != "lexical" else "queries; lexical, none, none"
    assert said in CliRunner().invoke(cli, options).stdout


def test_eval_and_tune_write_nothing_into_the_store_of_a_gateway(folder: Path) -> None:
    (folder / "armory.yaml").write_text(
        "upstreams: {}\ntool_rag: {index: qdrant, qdrant: {path: store}}\n"
    )
    for command in (["eval", str(folder), "--json"], ["tune", str(folder), "--json"]):
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 0, done.output
    assert not (folder / "store").exists()


def test_eval_among_the_tools_of_another_catalog(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    rows = [{"id": f"t{i}", "name": f"t{i}", "description": f"Filler {i}"} for i in range(40)]
    rows.append({"id": "paint_letter", "name": "other", "description": "Something else"})
    rows.append({"id": "copy", "name": "paint_letter", "description": "Paint a letter for you"})
    (other / "tools.jsonl").write_text("\n".join(map(json.dumps, rows)))
    runner = CliRunner()
    options = ["eval", str(folder), "--embedder", "none", "--json", "--among"]
    for given, tools in ((str(other), 32 + 41), (f"{other}:10", 42)):
        done = runner.invoke(cli, [*options, given])
        assert done.exit_code == 0, done.output
        report = json.loads(done.stdout)
        assert (report["tools"], report["queries"]) == (tools, 33)
        assert report["recall@5"] > 0.9
    for given, said in (
        (f"{other}:42", "41 tools can be added, 42 are asked for"),
        (f"{other}:0", "at least 1"),
        (str(folder / "absent"), "cannot be read"),
    ):
        done = runner.invoke(cli, [*options, given])
        assert isinstance(done.exception, ConfigError)
        assert said in str(done.exception)


def test_eval_keeps_the_vectors_of_tools(folder: Path) -> None:
    assert CliRunner().invoke(cli, ["eval", str(folder), "--limit", "1"]).exit_code == 0
    with closing(sqlite3.connect(folder / "home" / "cache" / VECTORS_FILE)) as kept:
        assert kept.execute("SELECT COUNT(*) FROM vectors").fetchone() == (32,)


def test_failures_are_a_line_for_each_tool_or_fit_the_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    for row in rows:
        row["query"] = "why is\n the sky blue? " * 12
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = ["eval", str(folder), "--embedder", "none", "--ranker", "relevance"]
    options += ["--limit", "3", "--failures", "3", "--threshold", "0"]
    piped = CliRunner().invoke(cli, options).stdout.partition("\nq")[2].splitlines()
    assert re.match(r"\d+ why is the sky blue\? why is", piped[0])
    tools = [line for line in piped if line.startswith(("  missed ", "  came "))]
    assert tools
    assert all(re.search(r"\(rank \d+, score [\d.]+\) .*\w+=-?[\d.]+$", line) for line in tools)
    assert not [line for line in piped if line.startswith("    ")]
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", CliRunner().invoke(cli, options).stdout)
    lines = shown.partition("\nq")[2].splitlines()
    assert [line for line in lines if len(line.rstrip()) > 80] == []
    assert [line for line in lines if line.startswith("  sky blue?")], "a query is indented"
    assert [line for line in lines if re.match(r"    \w+=", line)], "signals are indented"


def test_queries_may_wait_for_a_slow_embedding_api(folder: Path) -> None:
    assert options_of(None).settings.dense_timeout_s == 60
    (folder / "armory.yaml").write_text("upstreams: {}\n")
    assert options_of(None).settings.dense_timeout_s == 60


def test_eval_as_a_table(folder: Path) -> None:
    done = CliRunner().invoke(cli, ["eval", str(folder), "--limit", "5", "--failures", "3"])
    assert done.exit_code == 0, done.output
    assert "recall@5" in done.stdout
    assert "what a threshold buys" in done.stdout
    assert "5 queries; relevance, embedded, exact" in done.stdout


def test_past_uses_lift_their_tools(folder: Path) -> None:
    uses = [{"query": f"make it shine, number {i}", "tool": "paint_bicycle"} for i in range(5)]
    (folder / "uses.jsonl").write_text("\n".join(map(json.dumps, uses)))
    (folder / "queries.jsonl").write_text(
        json.dumps({"id": "a", "query": "make it shine", "relevant": ["paint_bicycle"]})
    )
    figures = []
    for more in ([], ["--usage", str(folder / "uses.jsonl")]):
        done = CliRunner().invoke(cli, ["eval", str(folder), "--json", *more])
        assert done.exit_code == 0, done.output
        figures.append(json.loads(done.stdout)["mrr"])
    assert figures[1] == 1.0 > figures[0]


def test_eval_refuses_what_it_cannot_measure(folder: Path) -> None:
    with pytest.raises(ConfigError, match="FIGURE=NUMBER"):
        CliRunner().invoke(cli, ["eval", str(folder), "--min", "x"], catch_exceptions=False)
    assert CliRunner().invoke(cli, ["eval", str(folder), "--limit", "0"]).exit_code == 2


def test_tune_writes_what_the_gateway_reads(folder: Path) -> None:
    runner = CliRunner()
    dry = runner.invoke(cli, ["tune", str(folder), "--embedder", "none", "--json", "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert json.loads(dry.stdout)["written"] is None
    assert not (folder / "home").exists()
    done = runner.invoke(cli, ["tune", str(folder), "--embedder", "none", "--json"])
    report = json.loads(done.stdout)
    assert report["queries"] == 32
    assert report["ranker"] == "lexical"
    assert 0 < report["similarity_threshold"] < 1
    assert report["ece_after"] <= report["ece_before"] + 0.02
    written = load_calibration(report["written"])
    assert written is not None
    assert "lexical" in written


def test_what_was_tuned_counts_in_eval_and_is_no_prior_of_the_next_time(folder: Path) -> None:
    def run(command: str) -> dict[str, Any]:
        done = CliRunner().invoke(cli, [command, str(folder), "--embedder", "none", "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    shipped = run("eval")["ece"]
    first = run("tune")
    tuned = load_calibration(first["written"])
    assert run("eval")["ece"] != shipped
    again = run("tune")
    assert load_calibration(again["written"]) == tuned
    assert again["ece_before"] != first["ece_before"]  # that of the constants in use


def test_tune_counts_queries_that_a_listing_answers_with_nothing(folder: Path) -> None:
    lines = (folder / "queries.jsonl").read_text().splitlines()
    wanted = {
        "what is the meaning of a garden?": ["ship_garden", "cook_garden"],
        "how do I feel about my bicycle": ["ship_bicycle", "cook_bicycle"],
    }
    lost = [{"id": text, "query": text, "relevant": names} for text, names in wanted.items()]
    (folder / "queries.jsonl").write_text("\n".join([*lines, *map(json.dumps, lost)]))
    options = [str(folder), "--embedder", "none", "--json"]
    tuned = json.loads(CliRunner().invoke(cli, ["tune", *options]).stdout)
    seen = json.loads(CliRunner().invoke(cli, ["eval", *options]).stdout)
    at = {one["value"]: one for one in seen["thresholds"]}[tuned["similarity_threshold"]]
    assert at["empty_share"] > 0
    assert tuned["recall"] == at["recall"]


def test_tune_tells_what_a_listing_has_where_it_is_doubtful_that_a_tool_is_needed(
    folder: Path,
) -> None:
    letters = ["paint_letter", "ship_letter", "cook_letter", "weigh_letter"]
    doubtful = [("why would she ship the letter and the invoice", letters)]
    rows = [
        {"id": f"q{i}", "query": text, "relevant": names}
        for i, (text, names) in enumerate(doubtful * 30)
    ]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = [str(folder), "--embedder", "none", "--json"]
    tuned = json.loads(CliRunner().invoke(cli, ["tune", *options]).stdout)
    seen = json.loads(CliRunner().invoke(cli, ["eval", *options]).stdout)
    at = {one["value"]: one for one in seen["thresholds"]}[tuned["similarity_threshold"]]
    assert (tuned["recall"], tuned["returned_mean"]) == (at["recall"], at["returned_mean"])


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        ([("Repair a garden for you", ["repair_garden"])], "as easy as these"),
        ([(f"{', '.join(THINGS)} for you", [*EVERY])], "nearly everything"),
        ([("something for you", [*EVERY])], "no query gets a tool that it wants"),
        ([("thanks a lot!", ["cook_garden"])], "no query gets a tool that it wants"),
    ],
)
def test_tune_doubts_a_threshold_that_comes_of_odd_queries(
    folder: Path, queries: list[tuple[str, list[str]]], said: str
) -> None:
    rows = [
        {"id": f"q{i}", "query": text, "relevant": names}
        for i, (text, names) in enumerate(queries * 25)
    ]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = ["tune", str(folder), "--embedder", "none", "--dry-run"]
    told = CliRunner().invoke(cli, options)
    assert said in " ".join(told.stderr.split())
    assert said in json.loads(CliRunner().invoke(cli, [*options, "--json"]).stdout)["doubt"]


def test_tune_with_queries_of_its_own_making(folder: Path) -> None:
    done = CliRunner().invoke(cli, ["tune", str(folder), "--embedder", "none", "--synthetic"])
    assert done.exit_code == 0, done.output
    assert "suggested similarity_threshold" in done.stdout


def test_tune_needs_queries(folder: Path) -> None:
    lines = (folder / "queries.jsonl").read_text().splitlines()
    (folder / "queries.jsonl").write_text("\n".join(lines[:5]))
    with pytest.raises(ConfigError, match="5 queries want a tool, at least 20"):
        CliRunner().invoke(cli, ["tune", str(folder), "--embedder", "none"], catch_exceptions=False)


def test_a_set_without_labels_says_so(folder: Path) -> None:
    (folder / "queries.jsonl").write_text('{"id": "a", "query": "x", "relevant": []}')
    done = CliRunner().invoke(cli, ["eval", str(folder), "--embedder", "none"])
    assert isinstance(done.exception, ConfigError)
    assert "labels no query with a tool" in str(done.exception)


def test_a_file_of_queries_that_is_no_text_is_named(folder: Path) -> None:
    (folder / "asked.txt").write_bytes(b"\xff\xfe")
    options = ["report", "--data", str(folder), "--queries", "asked.txt"]
    done = CliRunner().invoke(cli, options)
    assert isinstance(done.exception, ConfigError)
    assert "asked.txt is not UTF-8" in str(done.exception)


def test_a_gate_of_no_figure_is_told_before_anything_is_measured(folder: Path) -> None:
    options = ["eval", str(folder), "--embedder", "none", "--json", "--min", "recall@6=0.5"]
    done = CliRunner().invoke(cli, options)
    assert isinstance(done.exception, ConfigError)
    said = str(done.exception)
    assert "--min recall@6: the report has no such figure; it has tools, queries, recall@1" in said
    assert done.stdout == ""


def test_past_uses_need_vectors(folder: Path) -> None:
    (folder / "uses.jsonl").write_text('{"query": "q", "tool": "paint_letter"}')
    options = ["eval", str(folder), "--embedder", "none", "--usage", "uses.jsonl"]
    done = CliRunner().invoke(cli, options)
    assert isinstance(done.exception, ConfigError)
    assert "--usage needs an embedder" in str(done.exception)
