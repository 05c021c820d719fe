"""`armory queries`: lets the chat model write example queries of every tool in advance.

Owns: saying what it costs, asking, and the progress bar. Never imports a web framework.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from armory.agent.synthetic import ChatQueryGenerator, estimate, generate_all
from armory.cli.local import opened, tools_of
from armory.cli.options import config_option, json_option, loaded_config
from armory.cli.output import err, print_json, say_error, say_unreached, tell, waiting
from armory.config import Loaded
from armory.errors import ConfigError
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.writing import content_key
from armory.retrieval.registry import VECTORS_FILE
from armory.runtime.blocks.agents import chat_client

_WRITING = "writing queries of tools"


@click.command()
@click.option("--estimate", "only_estimate", is_flag=True, help="Say what it would cost, and end.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before spending anything.")
@click.option(
    "--price",
    nargs=2,
    type=click.FloatRange(min=0),
    metavar="IN OUT",
    help="Prices of a million prompt and completion tokens, for the estimate.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Requests to the model at once.",
)
@config_option
@json_option
def queries(
    only_estimate: bool,
    yes: bool,
    price: tuple[float, float] | None,
    concurrency: int,
    config: str | None,
    as_json: bool,
) -> None:
    """Write synthetic queries for every tool that has none. If interrupted, run it again to go on.

    The strategy `tool_rag.embedding_strategy: synthetic_queries` searches them.
    """
    loaded = loaded_config(config)
    told, lacking = asyncio.run(
        _queries(loaded, price, concurrency, only_estimate=only_estimate, yes=yes)
    )
    if as_json:
        print_json(told)
    elif only_estimate:
        tell(_estimate(told))
    if told.get("failed"):
        say_error(f"{told['failed']} tools failed: {told['problem']}; run it again")
        raise click.exceptions.Exit(1)
    say_unreached(lacking)


async def _queries(
    loaded: Loaded,
    price: tuple[float, float] | None,
    concurrency: int,
    *,
    only_estimate: bool,
    yes: bool,
) -> tuple[dict[str, Any], dict[str, str]]:
    """What was done, and the upstreams whose tools it lacks."""
    folder = loaded.config.storage.cache_dir
    if not folder:
        raise ConfigError("is not set, so nothing could be kept", path="storage.cache_dir")
    async with opened(_without_generation(loaded)) as runtime:
        tools, lacking = tools_of(runtime)
    with closing(DocumentCache(Path(folder) / VECTORS_FILE)) as store:
        async with chat_client(loaded) as chat:
            generator = ChatQueryGenerator(chat, chat.model)
            cost = await estimate(generator, tools, store, content_key)
            answer: dict[str, Any] = {**asdict(cost), "model": chat.model}
            if price is not None:
                answer["price"] = round(cost.price(*price), 4)
            if only_estimate:
                return answer, lacking
            tell(_estimate(answer), console=err())
            if not cost.tools:
                return answer, lacking
            if not yes and not await asyncio.to_thread(_confirmed):
                return answer, lacking
            with waiting(_WRITING) as shown:
                done = await generate_all(
                    generator, tools, store, content_key,
                    concurrency=concurrency, on_progress=shown.counting(_WRITING),
                )  # fmt: skip
    err().print(f"{done.done} tools done, {done.failed} failed", markup=False)
    return {**answer, **asdict(done)}, lacking


def _confirmed() -> bool:
    """Ask whether to continue; returns the answer.

    Raises:
        UsageError: nobody is there who could.
    """
    try:
        return click.confirm("Go on?", err=True)
    except click.Abort:  # the end of standard input: Ctrl-C reaches the main thread alone
        raise click.UsageError("nobody answers here whether to go on; --yes asks nobody") from None


def _without_generation(loaded: Loaded) -> Loaded:
    """The configuration without retrieval and agent, so that listing the tools asks no model."""
    rag = loaded.config.tool_rag.model_copy(update={"enabled": False})
    agent = loaded.config.agent.model_copy(update={"enabled": False})
    config = loaded.config.model_copy(update={"tool_rag": rag, "agent": agent})
    return replace(loaded, config=config)


def _estimate(told: dict[str, Any]) -> str:
    price = f", {told['price']} in all" if "price" in told else ""
    return (
        f"{told['tools']} tools to do, {told['stored']} have their queries; about "
        f"{told['prompt_tokens']:,} prompt and {told['completion_tokens']:,} completion tokens of "
        f"{told['model']}{price}"
    )
