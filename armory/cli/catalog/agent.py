"""`armory search --agent`: the retrieval agent at work, its trace as it happens.

Owns: running the agent here and printing its events. Never imports a web framework.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from rich.console import Console
from rich.markup import escape

from armory.agent.findings import AgentResult, Event
from armory.cli.local import opened
from armory.cli.options import loaded_config
from armory.cli.output import err, out, print_json
from armory.errors import ConfigError

_HEADERS = {
    "thought": "Thought",
    "action": "Action",
    "observation": "Observation",
    "final_answer": "Final Answer",
    "malformed": "Malformed",
    "error": "Error",
}


async def run_agent(
    question: str, config: str | None, *, top_k: int | None, as_json: bool
) -> AgentResult:
    """Run it over the configured upstreams; the trace streams on a terminal.

    Raises:
        ConfigError: the agent or Tool RAG is off.
        ChatError: the model failed before anything was found.
    """
    async with opened(loaded_config(config)) as runtime:
        if runtime.agent is None:
            raise ConfigError(
                "is off; set it to true, and `agent.base_url` and `agent.model` to your chat API",
                path="agent.enabled",
            )
        console = err() if as_json else out()
        result: AgentResult | None = None
        async with aclosing(runtime.agent.stream(question, top_k=top_k or 10)) as events:
            async for event in events:
                result = event.result or result
                if not as_json:
                    show_event(console, event)
    assert result is not None  # a stream ends with its result, or raises
    if as_json:
        print_json(_with_definitions(result))
    else:
        _show_result(out(), result)
    return result


def show_event(console: Console, event: Event) -> None:
    """One event under a cyan header."""
    header = _HEADERS.get(event.kind)
    if header is None:
        return
    console.print(f"[bold cyan]{header}[/] [dim]{event.elapsed_ms / 1000:.1f} s[/]")
    text = event.text
    if event.kind == "action":
        text = f"{text} {event.data.get('arguments') or event.data.get('raw', '')}"
    console.print(escape(text), soft_wrap=True)
    console.print()


def _show_result(console: Console, result: AgentResult) -> None:
    for found in result.tools:
        console.print(f"[bold]{escape(found.tool.name)}[/]  {found.score:.2f}  {found.reason}")
    tokens = result.prompt_tokens + result.completion_tokens
    console.print(
        f"\n{len(result.tools)} tools, {result.iterations} searches, {tokens} tokens, "
        f"{result.took_ms / 1000:.1f} s; stopped: {result.stopped}"
    )
    if result.error:
        console.print(escape(result.error), soft_wrap=True)


def _with_definitions(result: AgentResult) -> dict[str, Any]:
    told = result.as_json()
    for entry, found in zip(told["tools"], result.tools, strict=True):
        entry["description"] = found.tool.description
        entry["inputSchema"] = dict(found.tool.input_schema) or {"type": "object"}
    return told
