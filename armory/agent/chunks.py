"""Chunks that the agent's searches return, and the record of those that a run has seen.

Owns: chunks and scored hits, the Protocol of a searchable source, duplicates and the rejection set.
Never imports retrieval or the model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from armory.agent.labels import Search, label, strength
from armory.domain.query import VisibleSet
from armory.domain.results import Match

CHUNK_WORDS = 512
OVERLAP_WORDS = 50
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document.

    Attributes:
        id: `filename#idx`; for a tool `exposed_name#idx`, idx from 0.
        text: the piece, at most 512 words.
        tool: exposed name of the tool that it describes; None for other documents.
    """

    id: str
    text: str
    tool: str | None = None

    @property
    def digest(self) -> str:
        """MD5 (hex) of the text: what duplicates share and rejection sets hold."""
        return text_digest(self.text)


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that a search found.

    Attributes:
        chunk: what was found.
        search: which of the two searches found it.
        score: its raw score: cosine in [-1, 1] or BM25, at least 0; higher is better.
        match: the tool behind it as retrieval judged it; None for other documents.
    """

    chunk: Chunk
    search: Search
    score: float
    match: Match | None = None

    @property
    def label(self) -> str:
        """Quality label of the raw score."""
        return label(self.search, self.score)

    @property
    def strength(self) -> float:
        """The score on one scale for both searches, in [0, 1]."""
        return strength(self.search, self.score)


@dataclass(frozen=True, slots=True)
class Ask:
    """One search for one caller.

    Attributes:
        query: what to look for.
        top_k: at most so many hits.
        visible: the tools that the caller may see; None: all.
        user: whose history ranks; None: nobody's.
    """

    query: str
    top_k: int
    visible: VisibleSet | None = None
    user: str | None = None


class ChunkSource(Protocol):
    """A source with both kinds of search. Hits come best first."""

    async def search(self, search: Search, ask: Ask) -> Sequence[Hit]:
        """At most `ask.top_k` hits.

        Raises:
            BackendError: this kind of search is not available now.
            RateLimited: too many searches run or wait already.
        """
        ...


def text_digest(text: str) -> str:
    """MD5 (hex) of a text without its outer white space. A name for content, not a safeguard."""
    clean = text.strip().encode("utf-8", "surrogatepass")
    return hashlib.md5(clean, usedforsecurity=False).hexdigest()


def cut(text: str, words: int = CHUNK_WORDS, overlap: int = OVERLAP_WORDS) -> list[str]:
    """Pieces of at most `words` words, each beginning with the last `overlap` of the one before.

    White space inside a piece stays as it is. A text without words gives no piece.

    Raises:
        ValueError: `overlap` is not smaller than `words`.
    """
    if not 0 <= overlap < words:
        raise ValueError(f"an overlap of {overlap} words does not fit chunks of {words} words")
    spans = [(m.start(), m.end()) for m in _WORD.finditer(text)]
    pieces: list[str] = []
    for first in range(0, len(spans), words - overlap):
        last = min(first + words, len(spans))
        pieces.append(text[spans[first][0] : spans[last - 1][1]])
        if last == len(spans):
            break
    return pieces


class Tracker:
    """The chunks that one run has found so far.

    Args:
        rejected: digests of chunks that an earlier round graded out; they never come back.
    """

    def __init__(self, rejected: Iterable[str] = ()) -> None:
        self.rejected = frozenset(rejected)
        self._best: dict[str, Hit] = {}

    def admit(self, hits: Iterable[Hit], top_k: int) -> tuple[list[Hit], int]:
        """Add the hits of a search.

        Returns:
            The hits to show (rejected ones and repeats within this search gone, at most `top_k`,
            best first) and how many of them are new to the run.
        """
        shown: dict[str, Hit] = {}
        for hit in sorted(hits, key=lambda h: -h.score):
            digest = hit.chunk.digest
            if digest not in self.rejected:
                shown.setdefault(digest, hit)
        kept = dict(list(shown.items())[:top_k])
        new = len(kept.keys() - self._best.keys())
        for digest, hit in kept.items():
            known = self._best.get(digest)
            if known is None or hit.strength > known.strength:
                self._best[digest] = hit
        return list(kept.values()), new

    @property
    def hits(self) -> list[Hit]:
        """One hit for each distinct text, with its highest score, best first."""
        return sorted(self._best.values(), key=lambda h: -h.strength)
