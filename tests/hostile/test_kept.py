"""What is remembered by a name, a URI, a header or a word that somebody else chose.

Bounded: what memory keeps of them, however long they are and however many.
"""

from __future__ import annotations

import gc
import random
import string
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
import pytest
import yaml
from msgspec import Raw

from armory.config import load_file
from armory.domain.principal import ANONYMOUS
from armory.domain.query import Query
from armory.domain.results import CallOutcome, Exchanged, Listing
from armory.domain.tool import ToolRecord
from armory.feedback import attribution as attribution_module
from armory.feedback.attribution import QueryAttribution
from armory.gateway.lists import manifest as manifest_module
from armory.gateway.lists.manifest import Manifest
from armory.gateway.views.names import _ToolWords  # pyright: ignore[reportPrivateUsage]
from armory.observability import activity as activity_module
from armory.observability.activity import Activity
from armory.observability.settings import ActivitySettings
from armory.openapi.keywords import usable
from armory.retrieval.embedders.cache import CachedEmbedder
from armory.retrieval.lexical import bm25
from armory.retrieval.lexical.bm25 import Fields, LexicalIndex
from armory.retrieval.lexical.text import terms
from armory.runtime import open_runtime
from armory.testing.clients.raw import LegacyClient
from armory.testing.embedder import HashingEmbedder
from armory.testing.upstreams.http import HttpUpstream
from armory.wire.http.host_checks import HostChecks

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
TIMES = 24
_TOKEN = "a-token-of-nobody-in-particular"
Kept = Callable[[], int]


@pytest.fixture
def kept() -> Iterator[Kept]:
    """Bytes that were allocated since it was asked before, and are still held."""
    tracemalloc.start()
    before = 0

    def more() -> int:
        nonlocal before
        gc.collect()
        now = tracemalloc.get_traced_memory()[0]
        found, before = now - before, now
        return found

    yield more
    tracemalloc.stop()


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_uris_of_which_a_client_makes_up_ever_more(
    era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: Kept
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(HttpUpstream(eras=era))
        config: dict[str, Any] = {
            "upstreams": {"web": {"url": upstream.url}},
            "security": {
                "tokens": {"bob": {"token": _TOKEN, "user": "bob"}},
                "policies": [{"who": ["bob"], "allow": ["*"]}],
            },
            "tool_rag": {"embedding_model": "none"},
            "observability": {"log_level": "error"},
        }
        file = tmp_path / "armory.yaml"
        file.write_text(yaml.safe_dump(config))
        runtime = await stack.enter_async_context(
            open_runtime(load_file(file), address=("127.0.0.1", 0))
        )
        http = await stack.enter_async_context(
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {_TOKEN}"})
        )
        await runtime.searchable()
        assert runtime.listening is not None
        client = LegacyClient(f"{runtime.listening.url}/mcp/web", http, "2025-11-25")
        await client.initialize({})

        async def ask(number: int) -> None:
            uri = f"mem://{number}/{'x' * 7_000}"
            said = await client.request("resources/read", {"uri": uri})
            assert said["id"] == client.count
            upstream.requests.clear()
            upstream.script.received.clear()

        for number in range(40):  # as many answers as a session may be asked for again
            await ask(number)
        kept()
        for number in range(40, 140):
            await ask(number)
        assert kept() < 100 * 7_000 / 2


def test_hosts_that_are_none(kept: Kept) -> None:
    checks = HostChecks()
    kept()
    for number in range(TIMES):
        assert not checks.host_allowed(f"{number}{'x' * 90_000}")
    assert kept() < 90_000
    assert checks.host_allowed("localhost:8080")


@pytest.mark.parametrize("letters", ["\u4e00\u4e8c\u4e09\u56db", "abcd"])
def test_queries_of_one_word(letters: str, kept: Kept) -> None:
    chosen = random.Random(0)
    terms("warm")
    kept()
    for _ in range(TIMES):
        terms("".join(chosen.choices(letters, k=8_000)))
    assert kept() < 4 * 8_000


def test_queries_of_one_word_that_no_tool_has(kept: Kept) -> None:
    index = LexicalIndex()
    index.add("a", Fields(name="aaaa", description="aaab aaac"))
    postings = index.freeze()
    postings.search("aaad")
    kept()
    for number in range(TIMES):
        postings.search(f"{'a' * 8_000}{number}")
    assert kept() < 4 * 8_000


async def test_queries_whose_vectors_are_kept(kept: Kept) -> None:
    embedder = CachedEmbedder(HashingEmbedder())
    texts = [f"{number} {'send an email ' * 500}" for number in range(TIMES)]
    await embedder.embed_queries(["warm"])
    vector = embedder.dimension * 4
    kept()
    for text in texts:
        await embedder.embed_queries([f"{text}!"])
    assert kept() < TIMES * (vector + 1_500)
    again = [(await embedder.embed_queries([f"{text}!"]))[0] for text in texts]
    assert len({row.tobytes() for row in again}) == TIMES
    await embedder.aclose()


def _made_up(chosen: random.Random) -> str:
    return " ".join("".join(chosen.choices(string.ascii_lowercase, k=6)) for _ in range(200))


def test_words_of_definitions_that_are_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25, "_WORDS", 500)
    monkeypatch.setattr(bm25, "_SEEN", 500)
    chosen = random.Random(0)
    index = LexicalIndex()
    index.add("mail", Fields(name="send_mail", description="Send a letter to somebody."))
    for number in range(50):
        fields = Fields(f"t{number}", "", *(_made_up(chosen) for _ in range(4)))
        index.add(f"t{number}", fields)
    postings = index.freeze()
    held = index._vocabulary, index._seen  # pyright: ignore[reportPrivateUsage]
    assert max(map(len, held)) <= 500 + 20 * 51
    assert index.full
    assert postings.search("letter").rows.tolist() == [0]
    index.add("note", Fields(name="letter_of_somebody"))
    found = index.freeze().search("letter of somebody").rows.tolist()
    assert {0, 51} <= set(found), "words that are known are those of new tools as well"


@pytest.mark.parametrize("what", ["queries", "contents", "names"])
def test_the_latest_queries_and_calls(
    what: str, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 1 << 18
    monkeypatch.setattr(activity_module, "KEPT_BYTES", room)
    activity = Activity(settings=ActivitySettings(arguments=True, results=True))
    kept()
    for number in range(300):
        text = str(number) + "\u0416" * 8_000
        if what == "contents":
            exchanged = Exchanged(f'{{"a":"{text[:4_000]}"}}'.encode(), None)
            activity.called(ANONYMOUS, CallOutcome("a__b", True, 1.0, exchanged=exchanged))
        else:
            names = tuple(f"a__{number}_{other}" for other in range(200))
            query = Query((text if what == "queries" else "x",))
            listing = Listing(query, 1, 1, 1, 1.0, 1.0, names if what == "names" else ())
            activity.listed(ANONYMOUS, listing)
    assert kept() < 4 * room
    entries = [*activity.latest()]
    assert 1 < len(entries) < 300
    assert [entry.seq for entry in entries] == [activity.last - i for i in range(len(entries))]


async def test_titles_of_which_a_manifest_tells(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 1 << 20
    monkeypatch.setattr(manifest_module, "_KEPT_BYTES", room)

    async def nothing(*_: object) -> NoReturn:
        raise AssertionError

    entries = Manifest(nothing, nothing)
    kept()
    for number in range(100):
        definition = f'{{"name":"a__{number}","title":"{"x" * 50_000}","inputSchema":{{}}}}'
        (entry,) = await entries._entries_of([Raw(definition.encode())])  # pyright: ignore[reportPrivateUsage]
        assert entry[0] == f"a__{number}"
    assert kept() < 3 * room


def test_words_of_definitions_that_are_very_long(kept: Kept) -> None:
    chosen = random.Random(0)
    index = LexicalIndex()
    index.add("a", Fields(name="send_letters"))
    kept()
    count = 16  # each takes the stemmer half a second while what it allocates is noted
    for number in range(count):
        text = "".join(chosen.choices(string.ascii_lowercase, k=20_000))
        index.add(f"t{number}", Fields(name=f"t{number}", description=f"letter {text}"))
    # The last text is held here, and its last word by the stemmer; the others by nobody.
    assert kept() < count * 20_000 / 2
    assert len(index.freeze().search("letters").rows) == count + 1


def test_queries_of_sessions_that_may_lead_to_calls(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 1 << 18
    monkeypatch.setattr(attribution_module, "_KEPT_BYTES", room)
    attribution = QueryAttribution()
    kept()
    for number in range(100):
        for turn in range(4):
            text = f"{number} {turn} {'x' * 7_000}"
            attribution.record_query(ANONYMOUS, (text,), ["a__b"], f"session {number}")
    assert kept() < 2 * room
    assert (attribution.led_to(ANONYMOUS, "a__b", "session 99") or "").startswith("99 3")
    assert attribution.led_to(ANONYMOUS, "a__b", "session 0") is None


def test_names_and_patterns_of_definitions_that_are_gone(kept: Kept) -> None:
    kept()
    name = ""
    for number in range(TIMES):
        name = f"{number}{'x' * 50_000}"
        assert _ToolWords.of("a__b", ToolRecord("a__b", "a", name, {}, "")).own
        assert usable("pattern", f"[a&&b]{number}{'x' * 900}")
    del name
    assert kept() < TIMES * 900
