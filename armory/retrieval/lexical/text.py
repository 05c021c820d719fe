"""Tokenisation: from any text to the terms that the lexical side matches on.

Owns: tokenizing (compound identifiers whole and in parts, CJK as bigrams, accents folded), stop
words, light stemming, character trigrams. Never imports anything of Armory but normal forms.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Protocol

from armory.domain.encoding import normalized

MAX_CHARS = 20_000
_MAX_PARTS = 6
_PIECE = 1_000
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
#: Vowels and other signs of Indian letters, which are part of a word and no letters to `re`.
_SIGNS = "".join(
    c for c in map(chr, range(0x900, 0xE00)) if unicodedata.category(c) in ("Mn", "Mc")
)
_RUN = rf"(?:[^\W_{_CJK}]++[{_SIGNS}]*+)++"
_CHUNK = re.compile(rf"[{_CJK}]+|{_RUN}(?:['\u2019_\-./:]{_RUN})*+")
_IS_CJK = re.compile(rf"[{_CJK}]")
_JOINT = re.compile(
    r"['\u2019_\-./:]+"
    r"|(?<=[a-zà-öø-ÿ0-9])(?=[A-ZÀ-ÖØ-Þ])"
    r"|(?<=[A-ZÀ-ÖØ-Þ])(?=[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ])"
    r"(?![B-HJ-TV-Z]s(?![a-zà-öø-ÿ])|[AIU]s(?![^\W_]))"  # URLs, APIs; but SaveSVGAsPNG
)
_SPACES = re.compile(r"\s+")
#: Several of what has no vowel, or none but its last letter: prs, pdfs, cpus; not css.
_ABBREVIATIONS = re.compile(r"[b-df-hj-np-tv-xz]{2,}+(?:[aeiou]s|(?<=[^s]s))")

#: Words of letters that stand by themselves, or after a hyphen: no parts of a path, of an address,
#: of an option (`--oneline`) or of an identifier.
STANDALONE = re.compile(
    rf"(?:(?<![\w/\\@#$%&=~.+-])|(?<=[^\W\d_]-))(?:[^\W\d_]++[{_SIGNS}]*+)++"
    r"(?![\w/\\@=(]|\.\w|:[\w/])"
)

_STOP = """
a about after all also am an and any are as at be because been before being both but by can
could d did do does doing don done each either else etc every few for from further get got had
has have having he hello her here hers hey hi him his how i if in into is it its itself just
kindly know let like ll m make may me might more most must my need needed needs no nor not now
of off on once only or other our ours out over own per please provide re s same shall she should
so some such t tell than thank thanks that the their theirs them then there these they this
those through to too us use used uses using ve very via want wants was way we were what when
where whether which while who whom whose why will with within without would you your yours
able help give show find assist currently via
"""
_KEPT = 20_000
"""Words whose terms are cached, 0.5 KB each."""
KEPT_CHARS = 64
"""Longest word for which anything is cached: a query may be a single one of thousands of
characters."""
STOP_WORDS = frozenset(_STOP.split())


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


class _Stemmers(threading.local):
    """One for each thread: a stemmer keeps the word that it works on in itself."""

    @cached_property
    def english(self) -> _Stemmer:
        import snowballstemmer  # loads every language: only once something is stemmed

        return snowballstemmer.stemmer("english")


_STEMMERS = _Stemmers()


def stem(word: str) -> str:
    """Snowball English stem of a lower-case word; other languages lose little or nothing."""
    return _kept_stem(word) if len(word) <= KEPT_CHARS else _stem(word)


def _stem(word: str) -> str:
    if len(word) <= 2:
        return word
    if _ABBREVIATIONS.fullmatch(word):  # Snowball leaves them their `s`
        return word[:-1]
    return _STEMMERS.english.stemWord(word)


_kept_stem = lru_cache(maxsize=_KEPT)(_stem)


def fold(text: str) -> str:
    """Case folded, compatibility forms and accents of non-CJK letters gone: `Idő` -> `ido`."""
    if text.isascii():
        return text.lower()
    bare = normalized("NFKD", text)
    return "".join(c for c in bare if not unicodedata.combining(c)).casefold()


def split_identifier(name: str) -> list[str]:
    """`getHTTPStatus_v2` -> `["get", "HTTP", "Status", "v2"]`."""
    return [part for part in _JOINT.split(name) if part]


def spaced(name: str) -> str:
    """An identifier as words for an embedder: `getHTTPStatus_v2` -> `get http status v2`."""
    words = " ".join(split_identifier(name)).replace("_", " ")
    return _SPACES.sub(" ", words).strip().lower()


def _parts(chunk: str) -> list[str]:
    return [part for part in map(fold, split_identifier(chunk)) if part]


def _chunk_terms(chunk: str) -> tuple[str, ...]:
    if _IS_CJK.match(chunk):
        if len(chunk) == 1:
            return (chunk,)
        return tuple(chunk[i : i + 2] for i in range(len(chunk) - 1))
    parts = _parts(chunk)
    terms = [stem(part) for part in parts if part not in STOP_WORDS]
    return (*terms, whole) if (whole := _whole(chunk, parts)) else tuple(terms)


def _whole(chunk: str, parts: Sequence[str]) -> str:
    """The term of a chunk written together, "" where it is none: one part, many, or `user's`."""
    if not 1 < len(parts) <= _MAX_PARTS:
        return ""
    whole = "".join(parts)
    # of what stands together anyway a single letter counts as well: OAuth, iPhone, gRPC
    return stem(whole) if chunk.isalnum() or len(whole) > max(map(len, parts)) + 1 else ""


_kept_terms = lru_cache(maxsize=_KEPT)(_chunk_terms)


def terms(text: str, limit: int = 100_000) -> list[str]:
    """Terms of a text in order, repeats kept, stop words gone, at most `limit`.

    Compound identifiers give their parts and the whole (`readFile` -> read, file, readfil), so
    `read_file`, `read-file` and `ReadFile` meet. Chinese, Japanese and Korean runs give character
    bigrams. Only the first 20,000 characters count.
    """
    text = text[:MAX_CHARS]
    if not text.isascii():
        text = normalized("NFKC", text)
    found: list[str] = []
    for chunk in _chunks(text):
        short = len(chunk) <= KEPT_CHARS
        found.extend(_kept_terms(chunk) if short else _chunk_terms(chunk))
        if len(found) >= limit:
            return found[:limit]
    return found


def chunks(text: str) -> list[str]:
    """The words and identifiers of a text as they stand in it, and its runs of CJK characters."""
    return _chunks(text[:MAX_CHARS])


def _chunks(text: str) -> list[str]:
    if len(text) <= _PIECE:
        return _CHUNK.findall(text)
    # Which would keep other threads waiting until the end of a long text.
    return [found[0] for found in _CHUNK.finditer(text)]


def every_word(text: str) -> frozenset[str]:
    """The words of a text and the parts of its identifiers, folded, stop words among them."""
    return frozenset(part for chunk in chunks(text) for part in _parts(chunk))


def spellings(chunk: str) -> list[tuple[str, str]]:
    """How the words of one chunk are spelt, folded, and the term of each; none of CJK."""
    if _IS_CJK.match(chunk):
        return []
    return [(part, stem(part)) for part in _parts(chunk) if part not in STOP_WORDS]


def compounds(text: str) -> frozenset[str]:
    """Terms of a text that are only there as a whole made of parts: `readFile` -> {readfil}."""
    wholes: set[str] = set()
    parts: set[str] = set()
    for chunk in chunks(text):
        found = _chunk_terms(chunk)
        if not _IS_CJK.match(chunk) and (whole := _whole(chunk, _parts(chunk))):
            wholes.add(whole)
            found = found[:-1]
        parts.update(found)
    return frozenset(wholes - parts)


def trigrams(term: str) -> frozenset[str]:
    """Character trigrams of a term with its borders marked; for terms that are spelt alike."""
    marked = f"^{term}$"
    return frozenset(marked[i : i + 3] for i in range(len(marked) - 2))


def is_cjk(term: str) -> bool:
    """Whether the term begins with a Chinese, Japanese or Korean character."""
    return _IS_CJK.match(term) is not None
