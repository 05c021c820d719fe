"""What tags do to the order of every ranker, and what reasons say of several texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.feedback.vectors import FeedbackVectors
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.options import Limits
from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.base import RankSettings
from armory.retrieval.registry import make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.search.candidates import Experience
from armory.retrieval.settings import RetrieverSettings
from armory.testing.embedder import HashingEmbedder

pytestmark = pytest.mark.anyio
ALL = Limits(threshold=0.0)
RANKERS = ("relevance", "hybrid", "semantic", "lexical", "multi_factor")


def tool(name: str, text: str, *tags: str) -> ToolRecord:
    server, _, own = name.partition("__")
    return ToolRecord(name, server, own, {"name": own}, name, text, tags=tags)


MAIL = [
    tool("mail__send", "Send an email message to somebody", "a"),
    tool("mail__draft", "Draft an email message to be sent to somebody later", "b"),
    tool("mail__read", "Read an email message"),
    tool("clock__now", "The time of day"),
]


def boosted(ranker: str, boosts: dict[str, float]) -> Retriever:
    settings = RetrieverSettings(ranker=ranker, limits=ALL, rank=RankSettings(tag_boosts=boosts))
    return Retriever(HashingEmbedder(), ExactIndex(), make_rankers(), settings)


async def scores(retriever: Retriever, text: str = "send an email") -> dict[str, float]:
    found = await retriever.search(Query((text,)))
    return {match.tool.original_name: match.score for match in found.matches}


@pytest.mark.parametrize("ranker", RANKERS)
async def test_tags_move_a_tool_and_no_other(ranker: str) -> None:
    none, up, down = boosted(ranker, {}), boosted(ranker, {"b": 1e6}), boosted(ranker, {"a": 1e-6})
    async with none, up, down:
        for one in (none, up, down):
            await one.index(MAIL)
        plain, raised, lowered = await scores(none), await scores(up), await scores(down)
    assert next(iter(plain)) == "send"
    assert next(iter(raised)) == "draft"
    assert list(lowered)[-1] == "send"
    for others, moved in ((raised, "draft"), (lowered, "send")):
        rest = [name for name in plain if name != moved]
        assert [name for name in others if name != moved] == rest
        assert [others[name] for name in rest] == pytest.approx([plain[name] for name in rest])


async def test_diversity_mixes_what_the_cross_encoder_ordered() -> None:
    class Latest:
        async def scores(self, query: str, texts: Sequence[str]) -> FloatArray:
            return np.array(["time of day" in text for text in texts], np.float32)

    for diversity in (None, 1.0):
        settings = RetrieverSettings(limits=ALL, diversity=diversity)
        async with Retriever(
            HashingEmbedder(), ExactIndex(), make_rankers(), settings, reranker=Latest()
        ) as retriever:
            await retriever.index(MAIL)
            assert next(iter(await scores(retriever))) == "now"


async def test_the_best_thirty_are_reordered_and_the_best_fifty_mixed() -> None:
    class Backwards:
        async def scores(self, query: str, texts: Sequence[str]) -> FloatArray:
            return np.arange(len(texts), dtype=np.float32)

    copies = [tool(f"mail__send{i}", "Send an email message") for i in range(45)]
    every = [*copies, tool("mail__folders", "List the folders for email")]
    orders: list[list[str]] = []
    for diversity, reranker in ((None, None), (None, Backwards()), (0.5, None)):
        settings = RetrieverSettings(
            ranker="semantic", limits=Limits(threshold=None, max_tools=99), diversity=diversity
        )
        async with Retriever(
            HashingEmbedder(), ExactIndex(), make_rankers(), settings, reranker=reranker
        ) as retriever:
            await retriever.index(every)
            orders.append(list(await scores(retriever, "send an email message")))
    plain, reordered, mixed = orders
    assert plain[-1] == "folders"
    assert reordered == [*plain[29::-1], *plain[30:]]
    assert mixed[:2] == [plain[0], "folders"]


async def test_a_reason_tells_the_place_for_the_text_that_it_is_nearest_to() -> None:
    async with Retriever(HashingEmbedder(), ExactIndex(), make_rankers(), None) as retriever:
        await retriever.index(MAIL)
        texts = ("the time of day", "read an email message")
        for asked in (texts, texts[::-1]):
            found = await retriever.search(Query(asked, threshold=0.0))
            reasons = {match.tool.original_name: match.reason for match in found.matches}
            assert "(place 1)" in reasons["now"]
            assert "(place 1)" in reasons["read"]


async def test_lexical_shows_nothing_that_shares_no_word_whether_or_not_there_are_vectors() -> None:
    settings = RetrieverSettings(ranker="lexical")
    dense = Retriever(HashingEmbedder(), ExactIndex(), make_rankers(), settings)
    words = Retriever(None, None, make_rankers(), settings)
    async with dense, words:
        for one in (dense, words):
            await one.index(MAIL)
            found = await one.search(Query(("transcribe podcast",)))
            assert [match.tool.name for match in found.matches] == []
            found = await one.search(Query(("draft a message",)))
            assert found.matches[0].tool.original_name == "draft"


async def test_a_name_with_a_small_word_is_said_with_it_only() -> None:
    tools = [tool("git__git_show", "Shows a commit"), tool("git__git_add", "Stages content"), *MAIL]
    async with boosted("relevance", {}) as retriever:
        await retriever.index(tools)

        async def reason(query: str) -> str:
            found = await retriever.search(Query((query,)), explain=True)
            return next(m.reason for m in found.ranking if m.tool.name == "git__git_show")

        assert "name is in the query" in await reason("git show HEAD")
        assert "name is in the query" not in await reason("git add everything")


@pytest.mark.parametrize(
    ("asked", "name"), [("read README.md", "read_media_file"), ("post_message", "send_message")]
)
async def test_a_name_that_an_identifier_only_looks_like_is_not_said(asked: str, name: str) -> None:
    async with boosted("relevance", {}) as retriever:
        await retriever.index([tool(f"s__{name}", "Does it"), *MAIL])

        async def reason(query: str) -> str:
            found = await retriever.search(Query((query,)), explain=True)
            return next(m.reason for m in found.ranking if m.tool.original_name == name)

        assert "its name is in the query" in await reason(name.replace("_", ""))
        assert "its name is in the query" not in await reason(asked)


@pytest.mark.parametrize("ranker", ["relevance", "hybrid", "lexical"])
async def test_a_reason_counts_the_words_that_are_shared(ranker: str) -> None:
    async with boosted(ranker, {}) as retriever:
        await retriever.index(MAIL)
        found = await retriever.search(Query(("archive a message",)), explain=True)
        reasons = {match.tool.original_name: match.reason for match in found.ranking}
    assert "shares 50% of the query's words" in reasons["send"].lower()  # not what they weigh
    assert "shares" not in reasons["now"].lower()


async def test_what_others_used_did_not_work_for_the_caller_before() -> None:
    memory = FeedbackVectors()
    settings = RetrieverSettings(ranker="multi_factor", limits=ALL)
    retriever = Retriever(
        HashingEmbedder(),
        ExactIndex(),
        make_rankers(),
        settings,
        experience=Experience(memory=memory),
    )
    async with retriever:
        await retriever.index(MAIL)
        asked = [f"send an email to {name}" for name in ("ann", "bob", "carl", "dora", "eve")]
        for user, text, vector in zip("abcde", asked, await retriever.embed(asked), strict=True):
            memory.learn(text, vector, "mail__send", user)
        found = await retriever.search(Query(("send an email to ann",), user="z"))
    reasons = {match.tool.original_name: match.reason for match in found.matches}
    assert "similar queries led to it before" in reasons["send"]
    assert "you" not in reasons["send"]
