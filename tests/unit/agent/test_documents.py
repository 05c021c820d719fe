"""A folder of documents: reading, cutting, searching."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from armory.agent import documents
from armory.agent.chunks import Ask
from armory.agent.documents import DocumentSource, read_folder
from armory.errors import BackendError, ConfigError
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.ports import FloatArray
from armory.testing.embedder import HashingEmbedder

PDF_TEXT = "Quarterly revenue grew in Norway"


def write_pdf(path: Path, text: str) -> None:
    """The smallest PDF with one line of text."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    data = b"%PDF-1.4\n"
    offsets: list[int] = []
    for number, body in enumerate(bodies, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start = len(data)
    data += b"xref\n0 6\n0000000000 65535 f \n" + table
    data += b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start
    path.write_bytes(data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "runbooks").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "runbooks" / "rollback.md").write_text(
        "# Rollback\n\nIf a deployment fails, roll back with E1042.\n", encoding="utf-8"
    )
    (root / "page.html").write_text(
        "<html><head><style>p {color: red}</style></head><body><h1>On call</h1>"
        "<p>Who is paged at night</p><script>alert('no')</script></body></html>",
        encoding="utf-8",
    )
    (root / "long.txt").write_text(" ".join(f"word{i}" for i in range(600)), encoding="utf-8")
    (root / "latin.txt").write_bytes("caf\xe9 table".encode("latin-1"))
    (root / "empty.md").write_text("", encoding="utf-8")
    (root / "image.png").write_bytes(b"\x89PNG")
    (root / ".git" / "hidden.md").write_text("secret", encoding="utf-8")
    (root / "broken.pdf").write_bytes(b"%PDF-1.4 nothing of the kind")
    write_pdf(root / "report.pdf", PDF_TEXT)
    (tmp_path / "outside.md").write_text("outside", encoding="utf-8")
    (root / "link.md").symlink_to(tmp_path / "outside.md")
    return root


def test_every_kind_is_read_and_the_rest_left_out(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chunks = {chunk.id: chunk.text for chunk in read_folder(folder)}
    assert sorted(chunks) == [
        "latin.txt#0",
        "long.txt#0",
        "long.txt#1",
        "page.html#0",
        "report.pdf#0",
        "runbooks/rollback.md#0",
    ]
    assert chunks["page.html#0"] == "On call\nWho is paged at night"
    assert PDF_TEXT in chunks["report.pdf#0"]
    assert "word599" in chunks["long.txt#1"]
    assert chunks["latin.txt#0"].endswith("table")
    assert "EOF marker" not in caplog.text  # the parser's own words name no file


def test_a_missing_folder_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"agent\.documents.*is not a folder"):
        read_folder(tmp_path / "nowhere")


@pytest.mark.parametrize("module", ["bs4", "pypdf"])
def test_a_missing_parser_names_the_extra(
    folder: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == module:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"armory-mcp-gateway\[documents\]"):
        read_folder(folder)


@pytest.mark.anyio
async def test_both_searches_find_their_chunk(folder: Path) -> None:
    source = await DocumentSource.open(folder, HashingEmbedder())
    await source.embedded()
    assert len(source) == 6
    words = await source.search("keyword_search", Ask("E1042", 5))
    assert [hit.chunk.id for hit in words] == ["runbooks/rollback.md#0"]
    assert words[0].score > 0
    assert words[0].match is None
    near = await source.search("vector_search", Ask("who is paged at night", 2))
    assert near[0].chunk.id == "page.html#0"
    assert len(near) == 2
    assert near[0].score >= near[1].score


@pytest.mark.anyio
async def test_every_word_of_a_chunk_is_found(folder: Path) -> None:
    source = await DocumentSource.open(str(folder), None)
    hits = await source.search("keyword_search", Ask("word505", 1))
    assert hits[0].chunk.id in ("long.txt#0", "long.txt#1")


@pytest.mark.anyio
async def test_without_an_embedder_only_words_can_be_searched(folder: Path) -> None:
    source = await DocumentSource.open(folder, None)
    with pytest.raises(BackendError, match="no embedder"):
        await source.search("vector_search", Ask("anything", 3))


@pytest.mark.anyio
async def test_an_empty_folder_finds_nothing(tmp_path: Path) -> None:
    source = await DocumentSource.open(tmp_path, HashingEmbedder())
    assert list(await source.search("vector_search", Ask("anything", 3))) == []


class Mended(HashingEmbedder):
    """An embedder that fails until it is mended, and tells when it has embedded documents."""

    def __init__(self) -> None:
        super().__init__()
        self.failure = BackendError("the embedding API is away")
        self.done = asyncio.Event()

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        found = await super().embed_documents(texts)
        self.done.set()
        return found


@pytest.mark.anyio
async def test_an_embedder_that_is_away_costs_vectors_alone_and_for_a_while(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_PAUSES_S", (0.01,))
    embedder = Mended()
    async with asyncio.timeout(30):
        source = await DocumentSource.open(folder, embedder)
        await source.embedded()
        assert await source.search("keyword_search", Ask("E1042", 5))
        with pytest.raises(BackendError, match="the embedding API is away"):
            await source.search("vector_search", Ask("anything", 3))
        embedder.failure = None
        await embedder.done.wait()
        assert len(await source.search("vector_search", Ask("who is paged at night", 2))) == 2
        await source.aclose()


@pytest.mark.anyio
async def test_vectors_are_kept_between_starts(folder: Path, tmp_path: Path) -> None:
    async def embedded(embedder: HashingEmbedder) -> list[str]:
        source = await DocumentSource.open(folder, embedder, DocumentCache(tmp_path / "vectors.db"))
        await source.embedded()
        found = await source.search("vector_search", Ask("who is paged at night", 2))
        await source.aclose()
        return [hit.chunk.id for hit in found]

    first, second, third = HashingEmbedder(), HashingEmbedder(), HashingEmbedder()
    async with asyncio.timeout(30):
        found = await embedded(first)
        assert first.documents > len(found) == 2
        assert await embedded(second) == found
        assert second.documents == 0
        (folder / "new.md").write_text("Who may merge on Fridays", encoding="utf-8")
        await embedded(third)
    assert third.documents == 1
    assert not (tmp_path / "vectors.db-wal").exists(), "the file is closed"


@pytest.mark.anyio
async def test_a_source_that_is_closed_embeds_no_more(folder: Path) -> None:
    async with asyncio.timeout(30):
        source = await DocumentSource.open(folder, Mended())
        await source.embedded()
        await source.aclose()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "embed documents"]
