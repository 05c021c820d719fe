"""`armory tune`: fits scores and threshold to one's own tools and queries.

Owns: the command. The fitting is `armory.evaluation.tune`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import click
from rich.table import Table

from armory.cli.options import config_option, json_option, loaded_config
from armory.cli.output import EMBEDDING, out, print_json, say_notice, say_unreached, waiting
from armory.cli.quality.eval import options_of
from armory.config.home import home_here
from armory.domain.tool import ToolRecord
from armory.errors import ConfigError
from armory.evaluation.dataset import Dataset, load_dataset, load_tools
from armory.evaluation.tune import Tuned, synthetic_queries, tune, write_calibration
from armory.retrieval.names import RANKERS
from armory.retrieval.options import CALIBRATION
from armory.retrieval.registry import RetrievalOptions, build_retriever, make_rankers

_RANKERS = [name for name in RANKERS if name != "multi_factor"]


@click.command("tune")
@click.argument("folder", metavar="[DIR]", required=False)
@click.option("--ranker", type=click.Choice(_RANKERS), help="Default: as configured.")
@click.option("--embedder", metavar="MODEL", help="Default: as configured.")
@click.option("--synthetic", is_flag=True, help="Make queries from the tools' own texts.")
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@config_option
@json_option
def tune_command(
    folder: str | None,
    ranker: str | None,
    embedder: str | None,
    synthetic: bool,
    dry_run: bool,
    config: str | None,
    as_json: bool,
) -> None:
    """Fit the calibration, write it where the gateway reads it, and suggest a threshold.

    The threshold is yours to set, as tool_rag.similarity_threshold.

    DIR holds tools.jsonl and queries.jsonl, as for `armory eval`. Without DIR the configured
    upstreams' tools are taken, with queries made from their own texts; such queries are easier
    than real ones, so label some (100 are plenty) when you can.
    """
    options = options_of(config)
    if embedder is not None:
        options = replace(options, model=embedder, provider="auto")
    dataset, unreached = asyncio.run(_dataset(folder, config, synthetic))
    name = ranker or options.settings.ranker
    if options.model == "none":
        name = "lexical"
    if name == "multi_factor":
        name = "semantic"  # whose calibration says what its similarity means
    tuned = asyncio.run(_tune(dataset, options, name))
    path = home_here(config) / CALIBRATION
    if not dry_run:
        write_calibration(path, tuned)
    _report(tuned, None if dry_run else path, as_json)
    if tuned.doubt:
        say_notice(tuned.doubt)
    say_unreached(unreached)


async def _dataset(
    folder: str | None, config: str | None, synthetic: bool
) -> tuple[Dataset, dict[str, str]]:
    """The set, and the upstreams that it lacks."""
    if folder is not None and not synthetic and (Path(folder) / "queries.jsonl").is_file():
        return load_dataset(folder), {}
    unreached: dict[str, str] = {}
    if folder is not None:
        tools = load_tools(Path(folder) / "tools.jsonl")
    else:
        tools, unreached = await _tools_of(config)
    say_notice(
        "the queries are made from the tools' own texts, which is easier than real ones: "
        "take the suggested threshold for the most that can be asked for"
    )
    return Dataset(folder or "upstreams", tuple(tools), synthetic_queries(tools)), unreached


async def _tools_of(config: str | None) -> tuple[list[ToolRecord], dict[str, str]]:
    """All tools of the configured upstreams, whether they are indexed yet or not; and the upstreams
    that could not be reached.

    Raises:
        ConfigError: Tool RAG is off.
    """
    from armory.cli.local import opened, tools_of  # the whole gateway: only when it is asked for

    async with opened(loaded_config(config)) as runtime:
        if runtime.retriever is None:
            raise ConfigError("is off, so there is nothing to tune", path="tool_rag.enabled")
        return tools_of(runtime)


async def _tune(dataset: Dataset, options: RetrievalOptions, name: str) -> Tuned:
    with waiting(EMBEDDING) as shown:
        async with build_retriever(options, on_progress=shown.counting(EMBEDDING)) as retriever:
            ranker = make_rankers()[name]
            return await tune(
                dataset, retriever, ranker, on_progress=shown.counting("asking queries")
            )


def _report(tuned: Tuned, path: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "ranker": tuned.ranker,
                "embedder": tuned.embedder,
                "queries": tuned.queries,
                "similarity_threshold": tuned.threshold,
                "recall": round(tuned.recall, 4),
                "returned_mean": round(tuned.returned_mean, 2),
                "miss_cost": round(tuned.calibration.miss_cost, 3),
                "ece_before": round(tuned.ece_before, 4),
                "ece_after": round(tuned.ece_after, 4),
                "doubt": tuned.doubt or None,
                "written": None if path is None else str(path),
            }
        )
        return
    table = Table(show_header=False)
    table.add_row("queries", str(tuned.queries))
    error = f"{tuned.ece_before:.3f} -> {tuned.ece_after:.3f}"
    table.add_row("calibration error on unseen halves", error)
    table.add_row("suggested similarity_threshold", f"{tuned.threshold:g}")
    table.add_row("recall there", f"{tuned.recall:.3f}")
    table.add_row("tools returned there", f"{tuned.returned_mean:.1f}")
    out().print(table)
    if path is not None:
        out().print(f"written to {path}; takes effect at the next start")
