"""A folder of documents as a source that the agent can search.

Owns: reading Markdown, text, HTML and PDF, cutting them into chunks, and an index of the chunks in
memory. Never imports the loop. Parsers for HTML and PDF come with the extra `documents`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from armory.agent.chunks import OVERLAP_WORDS, Ask, Chunk, Hit, cut
from armory.agent.labels import Search
from armory.errors import BackendError, ConfigError
from armory.logger import Logger
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.indexing.cache import DocumentCache
from armory.retrieval.indexing.document import Fields
from armory.retrieval.lexical.bm25 import LexicalIndex
from armory.retrieval.lexical.postings import Postings
from armory.retrieval.ports import Embedder, FloatArray
from armory.tasks import spawn, stop

_log = Logger(__name__)

MAX_FILE_BYTES = 50_000_000
_TEXT = frozenset({".md", ".markdown", ".mdx", ".txt", ".text", ".rst"})
_HTML = frozenset({".html", ".htm", ".xhtml"})
_PDF = frozenset({".pdf"})
_WINDOW_WORDS = 180
"""An embedder reads some 256 tokens; a chunk has several windows, the best one counts."""
_BATCH = 64
_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds after which an embedder that failed is asked again."""


def _plain(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _html(path: Path) -> str:
    try:
        from bs4 import BeautifulSoup
    except ImportError as error:
        raise _missing(path) from error
    soup = BeautifulSoup(path.read_bytes(), "html.parser")
    for tag in soup(["script", "style", "template", "noscript"]):
        tag.decompose()
    return soup.get_text("\n", strip=True)


def _pdf(path: Path) -> str:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise _missing(path) from error
    # What it complains of names no file; one that cannot be read is told by its name.
    logging.getLogger("pypdf").setLevel(logging.ERROR)
    try:
        return "\n".join(page.extract_text() for page in PdfReader(path).pages)
    except (PyPdfError, ValueError, KeyError, TypeError, RecursionError) as error:
        # The parser meets whatever people call a PDF; one of them must not cost the others.
        raise ValueError(f"not a readable PDF ({type(error).__name__})") from error


def _missing(path: Path) -> ConfigError:
    return ConfigError(
        f"{path.name} needs a parser that is not installed: "
        'pip install "armory-mcp-gateway[documents]"',
        path="agent.documents",
    )


_READERS: tuple[tuple[frozenset[str], Callable[[Path], str]], ...] = (
    (_TEXT, _plain),
    (_HTML, _html),
    (_PDF, _pdf),
)
_PARSERS = ((_HTML, "bs4"), (_PDF, "pypdf"))


def check_folder(folder: Path) -> None:
    """Check that a folder of documents can be read; none of them is opened.

    Raises:
        ConfigError: no such folder, or a parser is missing.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"{str(folder)!r} is not a folder; give the folder that holds the documents",
            path="agent.documents",
        )
    absent = [kinds for kinds, parser in _PARSERS if importlib.util.find_spec(parser) is None]
    if absent:
        for path, _ in _documents(folder):
            if any(path.suffix.lower() in kinds for kinds in absent):
                raise _missing(path)


def read_folder(folder: Path) -> list[Chunk]:
    """The chunks of every Markdown, text, HTML and PDF file below a folder, in path order.

    A chunk's id is the file's path below the folder, `#`, and its number in the file. Hidden files
    and folders, links that lead outside, and files above 50 MB are left out; a file that cannot be
    read is reported and left out.

    Raises:
        ConfigError: no such folder, or a parser is missing.
    """
    check_folder(folder)
    chunks: list[Chunk] = []
    for path, reader in _documents(folder):
        name = path.relative_to(folder).as_posix()
        try:
            size_bytes = path.stat().st_size
            if size_bytes > MAX_FILE_BYTES:
                raise ValueError(f"{size_bytes} bytes; the limit is {MAX_FILE_BYTES}")
            text = reader(path)
        except (OSError, ValueError) as error:
            _log.warning("document_left_out", file=name, reason=str(error))
            continue
        chunks.extend(Chunk(f"{name}#{number}", piece) for number, piece in enumerate(cut(text)))
    return chunks


def _documents(folder: Path) -> Iterator[tuple[Path, Callable[[Path], str]]]:
    """The files to read, in path order, each with its reader."""
    root = folder.resolve()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        reader = next((read for kinds, read in _READERS if path.suffix.lower() in kinds), None)
        if reader is None or any(part.startswith(".") for part in relative.parts):
            continue
        if path.is_file() and path.resolve().is_relative_to(root):
            yield path, reader


@dataclass(frozen=True, slots=True, eq=False)
class _Vectors:
    """(v, d) float32 unit rows of the chunks' windows, and the chunk of each, (v,)."""

    rows: NDArray[np.float32]
    owner: NDArray[np.int64]


class DocumentSource:
    """Searches the chunks of a folder; everybody who may use the agent may see them.

    Lexical search works at once. Embeddings are made in the background: they can take minutes, and
    an embedder that is down must not keep a gateway from starting. A cache keeps them between
    starts.

    Args:
        chunks: from `read_folder`.
        postings: their words, rows in the chunks' order.
        embedder: for them and for queries; None: words only.
        cache: their vectors, by text; the source closes it.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        postings: Postings,
        embedder: Embedder | None,
        cache: DocumentCache | None = None,
    ) -> None:
        self._chunks = tuple(chunks)
        self._postings = postings
        self._embedder = embedder
        self._cache = cache
        self._vectors: _Vectors | None = None
        self._lacking = "the documents are still being embedded"
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        if embedder is not None and chunks:
            self._task = spawn(self._embed(embedder), "embed documents")

    @classmethod
    async def open(
        cls, folder: Path | str, embedder: Embedder | None, cache: DocumentCache | None = None
    ) -> DocumentSource:
        """Read a folder, in a thread, beside the event loop. Close it with `aclose`.

        Raises:
            ConfigError: as `read_folder`.
        """
        chunks = await asyncio.to_thread(read_folder, Path(folder))
        return cls(chunks, await asyncio.to_thread(_postings, chunks), embedder, cache)

    def __len__(self) -> int:
        return len(self._chunks)

    async def embedded(self) -> None:
        """Wait until there are vectors, or until it is known that none can be made now."""
        if self._task is not None:
            await self._tried.wait()

    async def aclose(self) -> None:
        """Stop embedding, close the cache."""
        await stop(self._task)
        if self._cache is not None:
            await asyncio.to_thread(self._cache.close)

    async def search(self, search: Search, ask: Ask) -> Sequence[Hit]:
        """At most `ask.top_k` hits, best first.

        Raises:
            BackendError: no vectors for a semantic search, or the embedder failed.
        """
        if not self._chunks:
            return []
        if search == "keyword_search":
            scores = self._postings.search(ask.query).bm25()
        else:
            scores = await self._cosines(ask.query)
        best = np.argsort(-scores, kind="stable")[: ask.top_k]
        return [
            Hit(self._chunks[int(i)], search, float(scores[i]))
            for i in best
            if search == "vector_search" or scores[i] > 0
        ]

    async def _cosines(self, query: str) -> NDArray[np.float32]:
        """(chunks,) best cosine over each chunk's windows."""
        if self._embedder is None or self._vectors is None:
            why = "there is no embedder" if self._embedder is None else self._lacking
            raise BackendError(f"semantic search is not available: {why}")
        found = await self._embedder.embed_queries([query])
        cosine = self._vectors.rows @ found[0]
        best = np.full(len(self._chunks), -1.0, np.float32)
        np.maximum.at(best, self._vectors.owner, cosine)
        return best

    async def _embed(self, embedder: Embedder) -> None:
        try:
            windows, owner = await asyncio.to_thread(_windows, self._chunks)
            parts = [
                await self._vectors_of(embedder, windows[start : start + _BATCH])
                for start in range(0, len(windows), _BATCH)
            ]
            self._vectors = _Vectors(np.concatenate(parts), np.array(owner, np.int64))
            _log.info("documents_embedded", chunks=len(self._chunks))
        finally:
            self._tried.set()

    async def _vectors_of(self, embedder: Embedder, texts: Sequence[str]) -> FloatArray:
        """The vectors of texts; only those that the cache lacks are computed."""
        if self._cache is None:
            return await self._patiently(embedder, texts)
        hashes = [text_hash(text) for text in texts]
        known = await asyncio.to_thread(
            self._cache.get, embedder.identity, hashes, embedder.dimension
        )
        lacking = {h: t for h, t in zip(hashes, texts, strict=True) if h not in known}
        if lacking:
            found = await self._patiently(embedder, list(lacking.values()))
            made = dict(zip(lacking, found, strict=True))
            await asyncio.to_thread(self._cache.put, embedder.identity, made)
            known |= made
        return np.stack([known[h] for h in hashes])

    async def _patiently(self, embedder: Embedder, texts: Sequence[str]) -> FloatArray:
        """The vectors of texts, with retries for as long as the embedder fails."""
        for failures in itertools.count():
            try:
                return await embedder.embed_documents(texts)
            except BackendError as error:
                pause_s = _PAUSES_S[min(failures, len(_PAUSES_S) - 1)]
                _log.warning("documents_not_embedded", error=str(error), retry_in_s=pause_s)
                self._lacking = str(error)
                self._tried.set()
                await asyncio.sleep(pause_s)
        raise AssertionError("it goes on until it returns")


def _postings(chunks: Sequence[Chunk]) -> Postings:
    index = LexicalIndex(field_terms=None)
    for chunk in chunks:
        index.add(chunk.id, Fields(name=chunk.id.rpartition("#")[0], description=chunk.text))
    return index.freeze()


def _windows(chunks: Sequence[Chunk]) -> tuple[list[str], list[int]]:
    """The windows of the chunks that are embedded, and the chunk of each."""
    windows: list[str] = []
    owner: list[int] = []
    for number, chunk in enumerate(chunks):
        pieces = cut(chunk.text, _WINDOW_WORDS, OVERLAP_WORDS)
        windows.extend(pieces)
        owner.extend([number] * len(pieces))
    return windows, owner
