"""`armory search --agent`: runs the retrieval agent and prints its steps as they happen.

Owns: running it here or asking for it elsewhere, and printing what it says. Never imports a web
framework.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from armory.agent.findings import AgentResult, Event
from armory.cli.answers import error_of_result
from armory.cli.options import loaded_config
from armory.cli.output import counted, out, print_json, say_unreached
from armory.errors import ArmoryError, ConfigError, UnknownTool

if TYPE_CHECKING:
    from armory.config import Loaded

FIND = "find_tools"
_OFF = (
    "the gateway offers no find_tools there: its agent is off (see agent.enabled), or is not for "
    "this caller"
)
_HEADERS = {
    "thought": "Thought",
    "action": "Action",
    "observation": "Observation",
    "final_answer": "Final Answer",
    "malformed": "Malformed",
    "error": "Error",
}


@dataclass(frozen=True, slots=True)
class Question:
    """What the agent is asked.

    Attributes:
        text: what is wanted.
        top_k: at most so many tools; None: ten.
        rejected: digests of chunks that were of no use.
    """

    text: str
    top_k: int | None
    rejected: tuple[str, ...] = ()


async def ask_agent(
    question: Question, config: str | None, url: str | None, token: str | None, *, as_json: bool
) -> None:
    """Have it answered here or at `url`; here the trace streams on a terminal.

    Raises:
        ConfigError: the agent or Tool RAG is off.
        ChatError: the model failed before anything was found.
        ArmoryError: the gateway refuses the request.
    """
    unreached: dict[str, str] = {}
    if url is None:
        answer, unreached = await _here(question, config, quiet=as_json)
    else:
        answer = await _there(question, url, token)
    if as_json:
        print_json(answer)
    else:
        _show_result(out(), answer)
    say_unreached(unreached)


async def _there(question: Question, url: str, token: str | None) -> dict[str, Any]:
    from armory.cli.remote import connected

    arguments: dict[str, Any] = {"query": question.text}
    if question.top_k is not None:
        arguments["top_k"] = question.top_k
    if question.rejected:
        arguments["rejected"] = list(question.rejected)
    async with connected(url, token) as gateway:
        try:
            result = await gateway.ask("tools/call", {"name": FIND, "arguments": arguments})
        except UnknownTool:
            raise ArmoryError(_OFF) from None
    if result.get("isError") or "structuredContent" not in result:
        raise error_of_result(result, _OFF)
    return result["structuredContent"]


async def _here(
    question: Question, config: str | None, *, quiet: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    from armory.agent.arguments import digests_of
    from armory.cli.local import findable, opened, unreached

    loaded = loaded_config(config)
    _check_on(loaded)  # before upstreams are waited for
    digests_of(question.rejected)
    async with opened(loaded, searched=True) as runtime:
        assert runtime.agent is not None  # it is on
        if runtime.documents is not None:
            await runtime.documents.embedded()
        console = out()
        result: AgentResult | None = None
        events = runtime.agent.stream(
            question.text,
            visible=findable(runtime),
            top_k=question.top_k or 10,
            rejected=question.rejected,
        )
        async with aclosing(events):
            async for event in events:
                result = event.result or result
                if not quiet:
                    show_event(console, event)
        assert result is not None  # a stream ends with its result, or raises
        return _with_definitions(result), unreached(runtime)


def _check_on(loaded: Loaded) -> None:
    if not loaded.config.agent.enabled:
        raise ConfigError(
            "is off; set it to true, and `agent.base_url` and `agent.model` to your chat API",
            path="agent.enabled",
        )
    if not loaded.config.tool_rag.enabled:
        raise ConfigError("is off; the agent searches with it", path="tool_rag.enabled")


def show_event(console: Console, event: Event) -> None:
    """One event under a cyan header."""
    header = _HEADERS.get(event.kind)
    if header is None:
        return
    console.print(f"[bold cyan]{header}[/] [dim]{event.elapsed_ms / 1000:.1f} s[/]")
    text = event.text
    if event.kind == "action":
        given = event.data.get("arguments")
        said = json.dumps(given, ensure_ascii=False) if given else event.data.get("raw", "")
        text = f"{text} {said}"
    elif written := event.data.get("written", "").strip():  # of a turn that cannot be read
        text = f"{text}; the model wrote:\n{written}"
    console.print(escape(text), soft_wrap=True)
    console.print()


def _show_result(console: Console, told: dict[str, Any]) -> None:
    for tool in told["tools"]:
        line = f"[bold]{escape(tool['name'])}[/]  {tool['score']:.2f}  {escape(tool['reason'])}"
        console.print(line)
    for document in told["documents"]:
        console.print(f"{document['score']:.2f}  {document['id']}", markup=False)
    searches = counted(told["iterations"], "search", "searches")
    tail = f"\n{counted(len(told['tools']), 'tool')}, {searches}"
    if "usage" in told:
        tail += f", {sum(told['usage'].values())} tokens, {told['took_ms'] / 1000:.1f} s"
    console.print(f"{tail}; stopped: {told['stopped']}", markup=False)
    if told.get("error"):
        console.print(escape(told["error"]), soft_wrap=True)


def _with_definitions(result: AgentResult) -> dict[str, Any]:
    fields = result.as_json()
    for entry, found in zip(fields["tools"], result.tools, strict=True):
        entry["description"] = found.tool.description
        entry["inputSchema"] = dict(found.tool.arguments_schema)
    return fields
