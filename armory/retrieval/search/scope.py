"""What one search looks for, and among which tools.

Owns: `Scope`, the context of a search; checking a query, splitting it into subqueries, the rows
that may be searched. Never imports embedders, indexes or rankers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from armory.domain.encoding import normalized
from armory.domain.query import MAX_QUERY_CHARS, MAX_TEXTS, Query
from armory.errors import InvalidRequest
from armory.retrieval.languages.english import readings
from armory.retrieval.lexical.implied import implied
from armory.retrieval.lexical.intents import clauses
from armory.retrieval.lexical.kinds import called_so
from armory.retrieval.lexical.known_words import KnownWords
from armory.retrieval.lexical.pasted import without_output
from armory.retrieval.lexical.text import spaced
from armory.retrieval.lexical.wording import (
    anyhost,
    as_tools_say,
    plainly,
    unaddressed,
    unfilled,
    unmannered,
    without_negated,
)
from armory.retrieval.ports import IntArray, Passage
from armory.retrieval.snapshot import Snapshot

MAX_SUBQUERIES = 12
#: Names of products, which begin with a capital or one small letter (GitHub, iPhone), stay whole.
_IDENTIFIER = re.compile(r"\b[a-z][a-z][a-z0-9]*+(?:[A-Z]++[a-z0-9]++)++\b")
#: So do those that only look like one, unless a tool is called so (CreateIssue, sendSMS).
_PERHAPS = re.compile(r"\b(?:[A-Z]++|[a-z])[a-z0-9]++(?:[A-Z]++[a-z0-9]*+)++\b")
#: What pages and chats put between letters and nobody sees: soft hyphens, spaces of no width, marks
#: of direction and of order. A clause or a word that has them inside would not be known as one.
_UNSEEN = dict.fromkeys(
    [0xAD, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), 0x2060, *range(0x2066, 0x206A), 0xFEFF]
)


@dataclass(frozen=True, slots=True)
class SubqueryText:
    """One text to search for; see `features.Subquery`. `passage` is what of it is embedded."""

    text: str
    parent: int
    whole: bool
    passage: Passage


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A query, and the tools that it is searched among.

    Attributes:
        query: as it was asked.
        texts: its subqueries, see `prepared`.
        implied: what it also asks for without saying so, see `lexical.implied`; never split.
        snapshot: the tools, their words and vectors.
        allowed: ascending rows that may be found; None: all.
    """

    query: Query
    texts: Sequence[SubqueryText]
    implied: Sequence[SubqueryText]
    snapshot: Snapshot
    allowed: IntArray | None

    @property
    def parts(self) -> Sequence[SubqueryText]:
        """Everything that is searched for: the subqueries, then what is implied."""
        return [*self.texts, *self.implied]

    @property
    def size(self) -> int:
        """How many tools may be found."""
        return len(self.snapshot.records) if self.allowed is None else len(self.allowed)


def scope_of(
    query: Query, snapshot: Snapshot, visible: IntArray | None, *, into_english: bool = False
) -> Scope:
    """The scope of a checked query within the visible rows (None: all).

    `into_english`: see `prepared`.
    """
    allowed = _filtered(snapshot, visible, query)
    words = KnownWords(snapshot.postings, allowed)
    read = [_read(text, words, into_english=into_english) for text in query.texts]
    first = [given[0] for given in read]
    others = [text for given in read for text in given[1:]]
    texts = subquery_texts([_put(text, words) for text in [*first, *others]])
    besides = implied_texts(query.texts, first)
    return Scope(query, texts, besides, snapshot, allowed)


def prepared(text: str, words: KnownWords, *, into_english: bool = False) -> str:
    """A caller's text as it is searched for: without a salutation, fillers, the answer's manner and
    hosts of mail, put plainly and spelt right.

    `into_english`: words of languages that there is a glossary of are put into English.
    """
    return _put(_read(text, words, into_english=into_english)[0], words)


def _read(text: str, words: KnownWords, *, into_english: bool) -> tuple[str, ...]:
    """A caller's text without what nobody sees and what programs wrote, in English if it is to be,
    then as it is where tools speak its language as well.
    """
    if not text.isascii():  # a letter and its accent are one, else both sides of it look like words
        text = normalized("NFC", text.translate(_UNSEEN))
    text = without_output(text)
    return readings(text, words) if into_english else (text,)


def _put(text: str, words: KnownWords) -> str:
    """A text that was read as it is searched for."""
    text = without_negated(unmannered(unaddressed(unfilled(text)), words), words)
    plain = plainly(called_so(anyhost(text), words), words)
    return as_tools_say(words.corrected(_with_words(plain, words)), words)


def _with_words(text: str, words: KnownWords) -> str:
    """The text with identifiers split, as tools' names are embedded: readFile -> read file."""
    text = _IDENTIFIER.sub(lambda found: spaced(found[0]), text)
    return _PERHAPS.sub(lambda it: spaced(it[0]) if words.is_name(it[0]) else it[0], text)


def check_query(query: Query) -> None:
    """Refuse texts that cannot be searched for.

    Raises:
        InvalidRequest: none, more than 16, not strings, blank, or longer than 8,000 characters
            together.
    """
    if not query.texts:
        raise InvalidRequest("the query has no text", parameter="query")
    if len(query.texts) > MAX_TEXTS:
        raise InvalidRequest(
            f"the query has {len(query.texts)} texts, at most {MAX_TEXTS} are allowed",
            parameter="query",
        )
    for text in query.texts:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequest(
                f"the query is {type(text).__name__}, expected text", parameter="query"
            )
        if not text.strip():
            raise InvalidRequest("the query is blank", parameter="query")
    length = sum(map(len, query.texts))
    if length > MAX_QUERY_CHARS:
        raise InvalidRequest(
            f"the query has {length} characters, at most {MAX_QUERY_CHARS} are allowed",
            parameter="query",
        )


def subquery_texts(texts: Sequence[str]) -> list[SubqueryText]:
    """The whole texts in order, then their clauses; at most twelve, but every whole text."""
    parts = [
        SubqueryText(text, i, whole=True, passage=Passage(text)) for i, text in enumerate(texts)
    ]
    for i, text in enumerate(texts):
        parts += [
            SubqueryText(text[slice(*span)], i, whole=False, passage=Passage(text, span))
            for span in clauses(text)
        ]
    return parts[: max(MAX_SUBQUERIES, len(texts))]


def implied_texts(texts: Sequence[str], read: Sequence[str]) -> list[SubqueryText]:
    """What the texts imply, as they are written and as they were put into English, each once."""
    found: dict[str, SubqueryText] = {}
    for i, (text, english) in enumerate(zip(texts, read, strict=True)):
        for act in implied(text) if text == english else (*implied(text), *implied(english)):
            found.setdefault(act, SubqueryText(act, i, whole=False, passage=Passage(act)))
    return list(found.values())


def _filtered(snapshot: Snapshot, visible: IntArray | None, query: Query) -> IntArray | None:
    """`visible` narrowed to the query's servers and categories."""
    for chosen_by, (codes, names) in (
        (query.servers, snapshot.servers),
        (query.categories, snapshot.categories),
    ):
        if chosen_by is None:
            continue
        chosen = np.array([names[n] for n in sorted(chosen_by) if n in names], np.int64)
        if visible is None:
            visible = np.flatnonzero(np.isin(codes, chosen))
        else:
            visible = visible[np.isin(codes[visible], chosen)]
    return visible
