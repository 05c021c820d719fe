"""The straight line of a search, its caps, its fallbacks and its return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import numpy as np
import pytest

from armory.domain.query import Query, VisibleSet
from armory.domain.results import Selection
from armory.domain.tool import ToolRecord
from armory.errors import BackendError, InvalidRequest
from armory.feedback.vectors import FeedbackLimits, FeedbackVectors
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexes.faiss import FaissIndex
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.indexer import Indexing
from armory.retrieval.options import Limits
from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.base import Ranker
from armory.retrieval.retriever import Retriever
from armory.retrieval.search.candidates import Experience
from armory.retrieval.settings import RetrieverSettings
from armory.testing.embedder import HashingEmbedder

pytestmark = pytest.mark.anyio
MakeTool = Callable[..., ToolRecord]
LOW = RetrieverSettings(limits=Limits(threshold=0.0))


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture
async def retriever(
    embedder: HashingEmbedder, rankers: dict[str, Ranker], tools: list[ToolRecord]
) -> AsyncIterator[Retriever]:
    async with Retriever(embedder, ExactIndex(), rankers, LOW) as made:
        await made.index(tools)
        yield made


async def names(retriever: Retriever, text: str, **more: object) -> list[str]:
    found = await retriever.search(Query((text,), **more))  # type: ignore[arg-type]
    return [match.tool.name for match in found.matches]


async def test_the_best_comes_first_with_score_and_reason(retriever: Retriever) -> None:
    found = await retriever.search(Query(("send an email message",)))
    best = found.matches[0]
    assert best.tool.name == "mail__send_email"
    assert best.score > found.matches[1].score
    assert best.reason.startswith("mail__send_email")
    assert found.top_score == best.score
    assert (found.visible, found.degraded, found.refused) == (5, None, False)
    assert found.took_ms > 0


async def test_visible_servers_and_categories_filter_inside(retriever: Retriever) -> None:
    visible = VisibleSet(frozenset(["files__read_file", "mail__send_email", "gone__tool"]))
    found = await retriever.search(Query(("current time in a time zone",)), visible)
    assert {m.tool.name for m in found.matches} == {"files__read_file", "mail__send_email"}
    assert found.visible == 2
    assert set(await names(retriever, "time", servers=frozenset(["clock"]))) == {
        "clock__get_time",
        "clock__convert_time",
    }
    assert set(await names(retriever, "time", categories=frozenset(["office"]))) == {
        "mail__send_email",
        "files__write_file",
    }
    both = {"servers": frozenset(["files"]), "categories": frozenset(["office"])}
    assert await names(retriever, "time", **both) == ["files__write_file"]
    assert await names(retriever, "time", servers=frozenset(["unknown"])) == []


async def test_nothing_visible_is_an_empty_answer(retriever: Retriever) -> None:
    found = await retriever.search(Query(("time",)), VisibleSet(frozenset()))
    assert (found.matches, found.visible) == ((), 0)


async def test_threshold_and_caps(retriever: Retriever) -> None:
    everything = await retriever.search(Query(("read a file on disk",)))
    scores = [m.score for m in everything.matches]
    assert scores == sorted(scores, reverse=True)
    middle = (scores[0] + scores[1]) / 2
    strict = await retriever.search(Query(("read a file on disk",), threshold=middle))
    assert [m.tool.name for m in strict.matches] == ["files__read_file"]
    assert strict.threshold == middle
    assert len(await names(retriever, "read a file on disk", top_k=2)) == 2


async def test_several_texts_find_a_tool_each(retriever: Retriever) -> None:
    found = await retriever.search(Query(("send an email", "time zone"), top_k=3))
    shown = {m.tool.name for m in found.matches}
    assert {"mail__send_email", "clock__get_time"} <= shown


async def test_explain_says_what_was_withheld_and_why(retriever: Retriever) -> None:
    query = Query(("send an email message",), threshold=0.3, top_k=1)
    found = await retriever.search(query, explain=True)
    assert len(found.ranking) == 5
    assert all("raw" in match.signals for match in found.ranking)
    shown = {m.tool.name for m in found.matches}
    assert set(found.withheld) == {m.tool.name for m in found.ranking} - shown
    assert "below threshold" in found.withheld.values()


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((), "no text"),
        (("",), "blank"),
        (("  \n\t",), "blank"),
        (("x" * 100_000,), "100000 characters"),
        (("x" * 5_000, "y" * 5_000), "10000 characters"),
        ((42,), "int"),
        ((None,), "NoneType"),
        ((["a"],), "list"),
    ],
)
async def test_bad_queries_are_refused(
    retriever: Retriever, texts: tuple[str, ...], said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said) as raised:
        await retriever.search(Query(texts))
    assert raised.value.parameter == "query"


@pytest.mark.parametrize("text", ["\ud800", "\0", "🙂", "   .   ", "ß" * 8_000, "%s {} \\"])
async def test_odd_queries_are_answered(retriever: Retriever, text: str) -> None:
    assert (await retriever.search(Query((text,)))).visible == 5


async def test_an_unknown_ranker_is_named(retriever: Retriever) -> None:
    with pytest.raises(InvalidRequest, match="unknown ranker 'nonsense'"):
        await names(retriever, "x", ranker="nonsense")


async def test_before_the_first_index(rankers: dict[str, Ranker]) -> None:
    async with Retriever(HashingEmbedder(), ExactIndex(), rankers) as fresh:
        found = await fresh.search(Query(("x",)))
        assert found.matches == ()
        assert found.degraded == "nothing is indexed yet"


async def test_only_what_changed_is_embedded(
    retriever: Retriever, embedder: HashingEmbedder, tools: list[ToolRecord], make_tool: MakeTool
) -> None:
    before = embedder.documents
    report = await retriever.index([*tools[1:], make_tool("new_tool", "Something quite new")])
    assert (report.embedded, embedder.documents - before) == (1, 1)
    assert await names(retriever, "something quite new", top_k=1) == ["srv__new_tool"]
    assert "clock__get_time" not in await names(retriever, "current time")


async def test_a_restart_embeds_nothing(
    tmp_path: object, rankers: dict[str, Ranker], tools: list[ToolRecord]
) -> None:
    path = f"{tmp_path}/vectors.db"
    for expected in (5, 0):
        model = HashingEmbedder()
        cache = DocumentCache(path)
        async with Retriever(
            model, ExactIndex(), rankers, LOW, indexing=Indexing(cache=cache)
        ) as one:
            report = await one.index(tools)
        assert (report.embedded, model.documents) == (expected, expected)
        cache.close()


async def test_another_model_embeds_anew(
    tmp_path: object, rankers: dict[str, Ranker], tools: list[ToolRecord]
) -> None:
    cache = DocumentCache(f"{tmp_path}/vectors.db")
    for identity, dimension in (("one", 32), ("two", 64)):
        model = HashingEmbedder(dimension, identity)
        async with Retriever(
            model, ExactIndex(), rankers, LOW, indexing=Indexing(cache=cache)
        ) as one:
            assert (await one.index(tools)).embedded == 5
            assert await names(one, "send an email", top_k=1) == ["mail__send_email"]
    cache.close()


async def test_a_failing_query_embedding_falls_back_to_words_and_comes_back(
    retriever: Retriever, embedder: HashingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("armory.retrieval.retriever.time.monotonic", lambda: now[0])
    embedder.failure = BackendError("the API is down")
    found = await retriever.search(Query(("send an email",)))
    assert found.matches[0].tool.name == "mail__send_email"
    assert found.degraded == "lexical only: the API is down"
    embedder.failure = None
    found = await retriever.search(Query(("send a letter",)))
    assert found.degraded is not None, "no hammering a moment later"
    now[0] += 1.1
    found = await retriever.search(Query(("send a letter",)))
    assert found.degraded is None


async def test_an_index_that_returns_the_best_only(
    rankers: dict[str, Ranker], make_tool: MakeTool
) -> None:
    many = [make_tool(f"tool_{i}", f"Handles matter number{i} of kind{i % 7}") for i in range(400)]
    exact = Retriever(HashingEmbedder(), ExactIndex(), rankers, LOW)
    few = RetrieverSettings(limits=Limits(threshold=0.0), candidates=20)
    approximate = Retriever(HashingEmbedder(), FaissIndex(), rankers, few)
    async with exact, approximate:
        await exact.index(many)
        await approximate.index(many)
        for i in (3, 77, 399):
            query = Query((f"matter number{i} of kind{i % 7}",), top_k=3)
            one = await exact.search(query)
            other = await approximate.search(query)
            assert one.visible == other.visible == 400
            assert other.matches[0].tool.name == f"srv__tool_{i}"
            for a, b in zip(one.matches, other.matches, strict=True):
                assert a.raw_score == pytest.approx(b.raw_score, abs=1e-5)


async def test_identical_concurrent_queries_are_embedded_once(
    retriever: Retriever, embedder: HashingEmbedder
) -> None:
    await asyncio.gather(*(retriever.search(Query(("one and the same",))) for _ in range(10)))
    assert embedder.queries == 1
    await retriever.search(Query(("one and the same",)))
    assert embedder.queries == 1


async def test_words_only(rankers: dict[str, Ranker], tools: list[ToolRecord]) -> None:
    async with Retriever(None, None, rankers, LOW) as one:
        await one.index(tools)
        found = await one.search(Query(("send an email",), ranker="lexical"))
        assert found.matches[0].tool.name == "mail__send_email"
        assert found.degraded is None


async def test_diversity_puts_a_copy_behind_something_else(
    rankers: dict[str, Ranker], make_tool: MakeTool
) -> None:
    twins = [
        make_tool("send_email", "Send an email message to a person", server)
        for server in ("mail", "post")
    ]
    other = make_tool("email_rules", "Rules that sort email", "rules")
    plain = Retriever(HashingEmbedder(), ExactIndex(), rankers, LOW)
    mixed = RetrieverSettings(limits=Limits(threshold=0.0), diversity=0.5)
    diverse = Retriever(HashingEmbedder(), ExactIndex(), rankers, mixed)
    async with plain, diverse:
        await plain.index([*twins, other])
        await diverse.index([*twins, other])
        assert (await names(plain, "send an email message"))[2] == "rules__email_rules"
        assert (await names(diverse, "send an email message"))[1] == "rules__email_rules"


async def test_memory_of_use_lifts_what_similar_queries_led_to(
    rankers: dict[str, Ranker], tools: list[ToolRecord]
) -> None:
    memory = FeedbackVectors(FeedbackLimits(floor=2.0))
    experience = Experience(memory=memory)
    async with Retriever(
        HashingEmbedder(), ExactIndex(), rankers, LOW, experience=experience
    ) as one:
        await one.index(tools)
        text = "ping the boss about lunch"
        assert (await names(one, text))[0] != "mail__send_email"
        for variant in (text, f"please {text}", f"{text} today"):
            vector = (await one.embed([variant]))[0]
            memory.learn(variant, vector, "mail__send_email")
        assert (await names(one, text))[0] == "mail__send_email"
        visible = VisibleSet(frozenset(["clock__get_time", "files__read_file"]))
        found = await one.search(Query((text,)), visible)
        assert len(found.matches) == 2


async def test_where_few_tools_have_vectors_words_answer(
    rankers: dict[str, Ranker], tools: list[ToolRecord]
) -> None:
    class OnlyQueries(HashingEmbedder):  # a limit of tokens that queries are too short to reach
        async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
            raise BackendError("too many tokens")

    async def listed(embedder: HashingEmbedder | None) -> Selection:
        index = None if embedder is None else ExactIndex()
        async with Retriever(embedder, index, rankers) as one:
            await one.index(tools)
            return await one.search(Query(("send an email",)))

    words, lacking = await listed(None), await listed(OnlyQueries())
    assert [(m.tool.name, m.score) for m in lacking.matches] == [
        (m.tool.name, m.score) for m in words.matches
    ]
    assert words.matches
    assert lacking.degraded == "lexical only: too many tokens"


async def test_the_reranker_orders_the_best(
    rankers: dict[str, Ranker], tools: list[ToolRecord]
) -> None:
    class Backwards:
        failure = False

        async def scores(self, query: str, texts: Sequence[str]) -> FloatArray:
            if self.failure:
                raise BackendError("gone")
            return np.array([1.0 if "write text" in t.lower() else 0.0 for t in texts], np.float32)

    second = Backwards()
    async with Retriever(HashingEmbedder(), ExactIndex(), rankers, LOW, reranker=second) as one:
        await one.index(tools)
        assert (await names(one, "send an email"))[0] == "files__write_file"
        second.failure = True
        assert (await names(one, "send an email"))[0] == "mail__send_email"
