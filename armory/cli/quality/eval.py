"""`armory eval`: measures retrieval on a labelled set.

Owns: the command, the table for people, the exit code of gates. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from armory.cli.output import EMBEDDING, out, print_json, say_error, say_notice, tell, waiting
from armory.config import find_config, load_file
from armory.config.home import FILE_NAME, armory_home
from armory.errors import ConfigError
from armory.evaluation.dataset import Dataset, among, load_dataset, load_uses
from armory.evaluation.report import failure_json, missed_gates, parse_gate, to_json
from armory.evaluation.run import Failure, Result, Setup, evaluate, of_nothing
from armory.feedback.vectors import FeedbackLimits, FeedbackVectors
from armory.retrieval.names import INDEXES, RANKERS
from armory.retrieval.options import CALIBRATION, INDEX
from armory.retrieval.rankers.base import RankSettings
from armory.retrieval.registry import RetrievalOptions, build_retriever, load_calibration
from armory.retrieval.search.candidates import Experience
from armory.retrieval.settings import RetrieverSettings
from armory.runtime.retrieval import retrieval_options

PATIENCE_S = 60.0
"""How long a query's vectors may take. In place of late ones the words alone would be measured."""


def options_of(config: str | None) -> RetrievalOptions:
    """The configured retrieval; the defaults where there is no configuration. What `armory tune`
    fitted counts in either case.

    A shared store is left in peace: vectors of a data set belong into this process. A slow
    embedding API has more time than in a gateway.

    Raises:
        ConfigError: the configuration does not hold.
    """
    given = config or os.environ.get("ARMORY_CONFIG")
    if given or Path(FILE_NAME).is_file():
        options = retrieval_options(load_file(find_config(config)))
    else:
        tuned = RankSettings(calibration=load_calibration(armory_home() / CALIBRATION))
        settings = RetrieverSettings(rank=tuned)
        options = RetrievalOptions(settings=settings, cache_dir=str(armory_home() / "cache"))
    return replace(
        options,
        index=INDEX if options.index == "qdrant" else options.index,
        settings=replace(options.settings, dense_timeout_s=PATIENCE_S),
    )


@click.command("eval")
@click.argument("folder", metavar="DIR")
@click.option("--split", help="Only queries of this split.")
@click.option("--ranker", type=click.Choice(RANKERS), help="Default: as configured.")
@click.option("--embedder", metavar="MODEL", help="A model's name, or `none`: words only.")
@click.option("--index", type=click.Choice(INDEXES), help="Vector store.")
@click.option("--threshold", type=click.FloatRange(0, 1), help="Default: as configured.")
@click.option("--limit", type=click.IntRange(1), help="Use at most N queries, evenly spread.")
@click.option("--among", "others", metavar="DIR[:N]", help="Add (N of) another catalog's tools.")
@click.option("--usage", metavar="FILE", help="JSON lines {query, tool}: past successful uses.")
@click.option("--failures", type=click.IntRange(0), default=0, help="Show N failures.")
@click.option(
    "--min", "gates", multiple=True, metavar="FIGURE=N", help="Exit with 1 below; repeatable."
)
@click.option(
    "--config", metavar="FILE", help="Default: $ARMORY_CONFIG, else ./armory.yaml where it exists."
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def eval_command(
    folder: str,
    split: str | None,
    ranker: str | None,
    embedder: str | None,
    index: str | None,
    threshold: float | None,
    limit: int | None,
    others: str | None,
    usage: str | None,
    failures: int,
    gates: Sequence[str],
    config: str | None,
    as_json: bool,
) -> None:
    """Measure retrieval on DIR, which holds tools.jsonl and queries.jsonl.

    tools.jsonl: id, name, description, optional server, inputSchema ...; queries.jsonl: id, query,
    relevant (ids; empty: no tool fits), optional split. Vectors of tools are kept in the cache
    folder: the next run over the same tools starts at once.
    """
    wanted = [parse_gate(gate) for gate in gates]
    missed_gates(to_json(of_nothing()), wanted)  # refuses an unknown figure before the long run
    dataset = _measurable(folder, split, limit)
    if others is not None:
        dataset = among(dataset, *folder_and_count(others))
    options = options_of(config)
    if embedder is not None:
        options = replace(options, model=embedder, provider="auto")
    if options.model == "none" and ranker is None:
        ranker = "lexical"
    options = replace(options, index=index or options.index)
    setup = Setup(
        embedder=options.model,
        index=options.index if options.model != "none" else "none",
        ranker=ranker,
        threshold=threshold,
    )
    result = asyncio.run(_run(dataset, options, setup, usage, failures))
    report = to_json(result)
    if as_json:
        shown = [failure_json(failure) for failure in result.failures]
        print_json(report | ({"failures": shown} if failures else {}))
    else:
        _print_table(dataset, report)
        _print_failures(result.failures)
    missed = missed_gates(report, wanted)
    for line in missed:
        say_error(line)
    if missed:
        raise click.exceptions.Exit(1)


def _measurable(folder: str, split: str | None, limit: int | None) -> Dataset:
    dataset = load_dataset(folder, split=split, limit=limit)
    if not dataset.queries:
        raise ConfigError(f"{folder}: queries.jsonl holds no query")
    if not any(query.relevant for query in dataset.queries):
        raise ConfigError(
            f"{folder}: queries.jsonl labels no query with a tool, so there is nothing to measure; "
            'give some of them `"relevant": ["id of a tool"]`'
        )
    return dataset


def folder_and_count(given: str) -> tuple[str, int | None]:
    """`DIR:N` or `DIR`, which may have colons of its own."""
    folder, colon, count = given.rpartition(":")
    if not colon or not count.isdecimal() or Path(given).is_dir():
        return given, None
    if not int(count):
        raise ConfigError(f"--among {given}: expected DIR:N with N tools, at least 1")
    return folder, int(count)


async def _run(
    dataset: Dataset,
    options: RetrievalOptions,
    setup: Setup,
    usage: str | None,
    failures: int,
) -> Result:
    if usage is not None and options.model == "none":
        raise ConfigError("--usage needs an embedder: past queries are found by their vectors")
    uses = load_uses(usage, frozenset(t.name for t in dataset.tools)) if usage else []
    memory = FeedbackVectors(FeedbackLimits(per_tool=1_000)) if uses else None
    with waiting(EMBEDDING) as shown:
        experience = Experience(memory=memory)
        async with build_retriever(
            options, experience=experience, on_progress=shown.counting(EMBEDDING)
        ) as retriever:
            if memory is not None:
                await retriever.index(dataset.tools)  # words of tools say how queries are spelt
                vectors = await retriever.embed([use.query for use in uses])
                for use, vector in zip(uses, vectors, strict=True):
                    memory.learn(use.query, vector, use.tool)
            return await evaluate(
                dataset,
                retriever,
                setup,
                failures=failures,
                on_progress=shown.counting("asking queries"),
            )


def _print_table(dataset: Dataset, report: dict[str, Any]) -> None:
    console = out()
    at = report["threshold"]
    table = Table(title=f"{escape(dataset.name)}: {report['tools']} tools", show_header=False)
    for name in ("recall@1", "recall@5", "recall@10", "complete@5", "complete@10", "ndcg@10"):
        table.add_row(name, f"{report[name]:.3f}")
    table.add_row("mrr", f"{report['mrr']:.3f}")
    table.add_section()
    table.add_row(f"recall at {at['value']:g}", f"{at['recall']:.3f}")
    table.add_row("precision", f"{at['precision']:.3f}")
    table.add_row("F1", f"{at['f1']:.3f}")
    table.add_row("tools returned", f"{at['returned_mean']:.1f}")
    table.add_row("left with nothing", f"{at['empty_share']:.1%}")
    if report["abstention_accuracy"] is not None:
        table.add_row("rightly nothing", f"{report['abstention_accuracy']:.1%}")
    table.add_row("calibration error", f"{report['ece']:.3f}")
    table.add_section()
    table.add_row("tokens saved", f"{report['tokens']['saved_share']:.1%}")
    table.add_row("latency p50", f"{report['latency_ms']['p50']:.1f} ms")
    table.add_row("latency p95", f"{report['latency_ms']['p95']:.1f} ms")
    console.print(table)
    ranker, asked = report["ranker"], report["asked_ranker"]
    if ranker != asked:
        ranker += f" in place of {asked}, which needs vectors"
    console.print(f"{report['queries']} queries; {ranker}, {report['embedder']}, {report['index']}")
    sweep = Table(title="what a threshold buys", header_style="bold")
    for column in ("threshold", "recall", "precision", "F1", "returned", "nothing", "refused"):
        sweep.add_column(column, justify="right")
    for row in report["thresholds"]:
        refused = row["refused_share"]
        sweep.add_row(
            f"{row['value']:.2f}", f"{row['recall']:.3f}", f"{row['precision']:.3f}",
            f"{row['f1']:.3f}", f"{row['returned_mean']:.1f}", f"{row['empty_share']:.1%}",
            "" if refused is None else f"{refused:.1%}",
        )  # fmt: skip
    console.print(sweep)


def _print_failures(failures: Sequence[Failure]) -> None:
    from rich.text import Text

    for failure in failures:
        query = " ".join(failure.query.split())[:300]
        tell("")
        tell(Text.assemble((failure.id, "bold"), f" {query}"), hang=2)
        if failure.refused:
            say_notice("judged to need no tool")
        for label, found in (("missed", failure.missed), ("came", failure.came)):
            for candidate in found:
                signals = " ".join(f"{k}={v:.2f}" for k, v in candidate.signals.items())
                which = f"(rank {candidate.rank}, score {candidate.score:.2f})"
                line = f"  {label} {candidate.tool} {which} "
                tell(Text.assemble(line, (signals, "dim")), hang=4)
