"""Example queries by a chat model: reading them, what they cost, going on where one was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from armory.agent.synthetic import (
    ChatQueryGenerator,
    estimate,
    generate_all,
    read_queries,
)
from armory.domain.tool import ToolRecord
from armory.llm.client import ChatClient
from armory.llm.errors import ChatMalformed
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.writing import QueryGenerator
from armory.testing.chat import ScriptedChat, Turn

pytestmark = pytest.mark.anyio

ANSWER = '["Ship the new build", "put version 2 live"]'


def tools(number: int) -> list[ToolRecord]:
    return [
        ToolRecord(f"ci__t{i}", "ci", f"t{i}", {"name": f"t{i}"}, f"f{i}", "Deploys a build")
        for i in range(number)
    ]


def key(tool: ToolRecord) -> str:
    return tool.fingerprint


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentCache]:
    opened = DocumentCache(tmp_path / "cache.db")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (ANSWER, ["Ship the new build", "put version 2 live"]),
        (f"Here:\n```json\n{ANSWER}\n```\nEnjoy!", ["Ship the new build", "put version 2 live"]),
        (f"<think>[1, 2]</think>{ANSWER}", ["Ship the new build", "put version 2 live"]),
        (f'<reasoning>["a"]</reasoning>{ANSWER}', ["Ship the new build", "put version 2 live"]),
        (f'Perhaps ["a"]?</think>{ANSWER}', ["Ship the new build", "put version 2 live"]),
        ('[{"query": "one"}, {"query": "two"}]', ["one", "two"]),
        ("1. one thing\n2. \"another\"\n\nthat's all", ["one thing", "another"]),
        ("- a\n- a\n- b", ["a", "b"]),
        ('["  spaced\\n out ", "", null, 3]', ["spaced out"]),
        ('["half an emoji \\ud83d"]', ["half an emoji ?"]),
        ("I cannot do that.", []),
        ("", []),
        ("[" * 3_000, []),
    ],
)  # fmt: skip
async def test_queries_are_read_from_whatever_comes(text: str, wanted: list[str]) -> None:
    assert read_queries(text) == wanted


async def test_the_generator_is_what_the_indexer_takes() -> None:
    async with ScriptedChat([ANSWER]) as server, ChatClient(server.url, "small") as chat:
        generator: QueryGenerator = ChatQueryGenerator(chat, "small", per_tool=1)
        assert list(await generator.generate(tools(1)[0])) == ["Ship the new build"]
    prompt = server.requests[0]["messages"][0]["content"]
    assert "Deploys a build" in prompt
    assert "JSON array of 1 strings" in prompt


async def test_the_identity_names_model_and_number() -> None:
    async with ChatClient("http://127.0.0.1:9/v1", "small") as chat:
        identities = {
            ChatQueryGenerator(chat, "small", per_tool=3).identity,
            ChatQueryGenerator(chat, "small", per_tool=4).identity,
            ChatQueryGenerator(chat, "large", per_tool=3).identity,
        }
    assert len(identities) == 3


async def test_an_answer_without_queries_is_an_error() -> None:
    async with ScriptedChat(["Sorry."]) as server, ChatClient(server.url, "small") as chat:
        with pytest.raises(ChatMalformed, match="ci__t0"):
            await ChatQueryGenerator(chat, "small").generate(tools(1)[0])


async def test_the_estimate_counts_only_what_is_missing(store: DocumentCache) -> None:
    async with ScriptedChat([ANSWER]) as server, ChatClient(server.url, "small") as chat:
        generator = ChatQueryGenerator(chat, "small")
        before = await estimate(generator, tools(4), store, key)
        await generate_all(generator, tools(3), store, key)
        after = await estimate(generator, tools(4), store, key)
    assert (before.tools, before.stored) == (4, 0)
    assert (after.tools, after.stored) == (1, 3)
    assert before.prompt_tokens > 4 * 60
    assert after.completion_tokens == before.completion_tokens / 4
    price = before.price(1.0, 2.0)
    assert price == pytest.approx((before.prompt_tokens + 2 * before.completion_tokens) / 1e6)


async def test_the_estimate_is_of_as_many_queries_as_are_written(store: DocumentCache) -> None:
    async with ChatClient("http://127.0.0.1:9/v1", "small") as chat:
        one, ten = [
            await estimate(ChatQueryGenerator(chat, "small", per_tool=n), tools(4), store, key)
            for n in (1, 10)
        ]
    assert ten.completion_tokens == 10 * one.completion_tokens


async def test_generating_goes_on_where_it_was(store: DocumentCache) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, of: int) -> None:
        seen.append((done, of))

    turns = [ANSWER, ANSWER, Turn(status=500)]
    async with (
        ScriptedChat(turns) as server,
        ChatClient(server.url, "small", max_retries=0) as chat,
    ):
        generator = ChatQueryGenerator(chat, "small")
        first = await generate_all(
            generator, tools(10), store, key,
            concurrency=1, give_up_after=3, on_progress=progress,
        )  # fmt: skip
        assert (first.done, first.failed) == (2, 3)
        assert "HTTP 500" in first.problem
        assert seen[-1] == (5, 10)
        server.turns = [Turn(ANSWER)]
        asked = len(server.requests)
        store.close()  # what is kept is in the file
        second = await generate_all(generator, tools(10), store, key)
    assert second.done == 8
    assert len(server.requests) == asked + 8
