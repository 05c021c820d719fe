"""Queries in other languages over tools that are described in English."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.retrieval import retriever as module
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.languages.glossary import READ
from armory.retrieval.ports import FloatArray
from armory.retrieval.registry import make_embedder, make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.settings import RetrieverSettings

pytestmark = pytest.mark.anyio
MakeTool = Callable[..., ToolRecord]


class Heard:
    """An embedder of any language, and what it was asked."""

    identity, dimension = "heard", 4

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        return np.eye(4, dtype=np.float32)[np.arange(len(texts)) % 4]

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        self.texts += texts
        return await self.embed_documents(texts)

    async def aclose(self) -> None: ...


ASKED = [
    ("Schick Anna eine E-Mail", "mail__send_email"),
    ("Lies die Datei vor", "files__read_file"),
    ("Wie spät ist es?", "clock__get_time"),
    ("envía un correo a Ana", "mail__send_email"),
    ("lee el archivo", "files__read_file"),
    ("envoie un courriel à Anne", "mail__send_email"),
    ("lis le fichier", "files__read_file"),
    ("quelle heure est-il ?", "clock__get_time"),
    ("küldj egy e-mailt Annának", "mail__send_email"),
    ("olvasd el a fájlt", "files__read_file"),
    ("invia un'email ad Anna", "mail__send_email"),
    ("leggi il file", "files__read_file"),
    ("envie um e-mail para a Ana", "mail__send_email"),
    ("leia o arquivo", "files__read_file"),
    ("给安娜发一封邮件", "mail__send_email"),
    ("读取文件", "files__read_file"),
    ("现在几点", "clock__get_time"),
    ("अन्ना को ईमेल भेजो", "mail__send_email"),
    ("फ़ाइल पढ़ो", "files__read_file"),
    ("anna ko email bhejo", "mail__send_email"),
]


@pytest.mark.parametrize("ranker", ["relevance", "hybrid", "lexical"])
async def test_the_tool_is_found(ranker: str, tools: list[ToolRecord]) -> None:
    embedder = make_embedder()
    async with Retriever(embedder, ExactIndex(), make_rankers()) as retriever:
        await retriever.index(tools)
        for asked, wanted in ASKED:
            found = await retriever.search(Query((asked,), ranker=ranker))
            assert wanted in [match.tool.name for match in found.matches], asked


async def test_the_tool_is_found_by_words_alone(tools: list[ToolRecord]) -> None:
    settings = RetrieverSettings(ranker="lexical")
    async with Retriever(None, None, make_rankers(), settings) as retriever:
        await retriever.index(tools)
        found = await retriever.search(Query(("Schick Anna eine E-Mail",)))
        assert found.matches[0].tool.name == "mail__send_email"


async def test_an_embedder_of_other_languages_is_asked_as_it_is_written(
    tools: list[ToolRecord],
) -> None:
    embedder = Heard()
    async with Retriever(embedder, ExactIndex(), make_rankers()) as retriever:
        await retriever.index(tools)
        await retriever.search(Query(("Lies die Datei vor",)))
        await retriever.embed(["lis le fichier"])
    assert embedder.texts == ["Lies die Datei vor", "lis le fichier"]


async def test_glossaries_are_read_beside_the_event_loop(
    tools: list[ToolRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    scope_of = module.scope_of

    def noted(*args: object, **named: object) -> object:
        threads.append(threading.get_ident())
        return scope_of(*args, **named)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(module, "scope_of", noted)
    READ.clear()
    settings = RetrieverSettings(ranker="lexical")
    async with Retriever(None, None, make_rankers(), settings) as retriever:
        await retriever.index(tools)
        for text in ("read the file", "Lies die Datei vor", "Lies die Datei vor"):
            await retriever.search(Query((text,)))
    here = threading.get_ident()
    assert [thread == here for thread in threads] == [True, False, True]


async def test_nothing_is_put_into_english_where_that_is_not_wanted(
    tools: list[ToolRecord],
) -> None:
    settings = RetrieverSettings(ranker="lexical", into_english=False)
    async with Retriever(None, None, make_rankers(), settings) as retriever:
        await retriever.index(tools)
        found = await retriever.search(Query(("Lies die Datei vor",)))
        assert not found.matches
        retriever.settings = RetrieverSettings(ranker="lexical")
        found = await retriever.search(Query(("Lies die Datei vor",)))
        assert found.matches[0].tool.name == "files__read_file"


GERMAN = {
    "autobahn_sperrungen": "Aktuelle Sperrungen auf einer Autobahn",
    "autobahn_baustellen": "Aktuelle Baustellen auf einer deutschen Autobahn abrufen",
    "wetter_aktuell": "Aktuelles Wetter an einem Ort in Deutschland",
}
ENGLISH = (
    *("block_user: Block a user", "lock_file: Lock a file", "unlock_file: Unlock a file"),
    *("block_ip: Block an address", "lock_door: Lock a door", "get_weather: Current weather"),
    *("blocks: List the blocks of a page", "delete_block: Delete a block"),
)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("Sperrungen auf der A5", "de__autobahn_sperrungen"),
        ("wie ist das Wetter", "en__get_weather"),
        ("sperr den Benutzer", "en__block_user"),
    ],
)
async def test_among_english_tools_those_in_the_language_of_the_query_are_found(
    make_tool: MakeTool, asked: str, wanted: str
) -> None:
    mixed = [make_tool(name, text, "de") for name, text in GERMAN.items()]
    mixed += [make_tool(*text.split(": "), "en") for text in ENGLISH]
    mixed += [make_tool(f"t{i}", f"Opens valve {i} of the pump", "plant") for i in range(60)]
    async with Retriever(make_embedder(), ExactIndex(), make_rankers()) as retriever:
        await retriever.index(mixed)
        found = await retriever.search(Query((asked,)))
        assert wanted in [match.tool.name for match in found.matches[:2]]
