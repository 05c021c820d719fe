"""An agent loop over an OpenAI-compatible API: `tools` is filled from retrieval, calls go over MCP.

Set OPENAI_BASE_URL, OPENAI_API_KEY and MODEL to use a real model; otherwise a stand-in answers.

Run: python examples/agent_loop.py
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import AsyncExitStack
from typing import Any

from demo_gateway import armory
from local_model import local_model
from mcp import Client
from openai import AsyncOpenAI

TASK = "Add a note titled Milk that says: buy milk on the way home."
MAX_TURNS = 5


def as_functions(tools: list[dict[str, Any]]) -> list[Any]:
    """Tools as retrieval gives them, in the form of the chat API."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["inputSchema"] or {"type": "object", "properties": {}},
            },
        }
        for tool in tools
    ]


async def run(model: AsyncOpenAI, name: str, client: Client, tools: list[Any]) -> list[str]:
    """Let the model work on the task; the names of the tools that it called."""
    messages: list[Any] = [{"role": "user", "content": TASK}]
    called: list[str] = []
    for _ in range(MAX_TURNS):
        answer = await model.chat.completions.create(model=name, messages=messages, tools=tools)
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            print(f"model: {message.content}")
            return called
        for call in message.tool_calls:
            assert call.type == "function"
            arguments = json.loads(call.function.arguments)
            result = await client.call_tool(call.function.name, arguments)
            called.append(call.function.name)
            text = " ".join(getattr(block, "text", "") for block in result.content)
            shown = " ".join(text.split())[:80]
            print(f"called {call.function.name}({arguments}): {shown}")
            assert not result.is_error, text
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return called


async def main() -> None:
    """Retrieve, then loop."""
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(armory())
        base_url = os.environ.get("OPENAI_BASE_URL")
        if base_url is None:
            base_url = await stack.enter_async_context(local_model())
        key = os.environ.get("OPENAI_API_KEY", "none")
        model = await stack.enter_async_context(AsyncOpenAI(base_url=base_url, api_key=key))
        client = await stack.enter_async_context(Client(f"{gateway.url}/mcp"))
        found = await gateway.retrieve(TASK, top_k=5)
        tools = as_functions(found["tools"])
        print(f"offered: {', '.join(tool['function']['name'] for tool in tools)}")
        assert len(tools) <= 5
        called = await run(model, os.environ.get("MODEL", "local"), client, tools)
        assert "notes__add_note" in called
        kept = await client.call_tool("notes__search_notes", {"words": "milk"})
        assert not kept.is_error
        assert "milk" in str(kept.content).lower()


if __name__ == "__main__":
    asyncio.run(main())
