"""Translates a query word for word into English.

Owns: putting a text together anew, and which of its words stay as they are. Never imports
embedders, indexes or rankers.

The embedder that ships reads English, and most tools are described in English. Word for word is no
translation, but enough to say which tool is meant (docs/relevance.md). A text that is English is
left alone, and so is one in the language of the tools: a word that more of them have than have the
English for it stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from armory.retrieval.languages.detection import (
    LATIN,
    Script,
    glossary_for,
    has_english,
    is_english_word,
    looks_english,
    names_in,
    script_of,
)
from armory.retrieval.languages.glossary import READ, Glossary, glossary
from armory.retrieval.lexical.known_words import KnownWords
from armory.retrieval.lexical.pleasantries import is_pleasantry
from armory.retrieval.lexical.text import STANDALONE, is_cjk, terms

#: Text without spaces, and what of it ends Japanese words.
_UNSPACED = re.compile(r"[\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]++")
_ENDING = re.compile(r"[\u3040-\u309f]")
#: Words of one text that are looked at; more say no more about its language.
_MOST = 400
#: What stands between the words of a phrase.
_GAP = re.compile(r"\s{1,3}|[-'\u2019]")
#: Joins two words of which English makes no one: donne-moi, l'heure.
_JOINTS = ("-", "'", "\u2019")
#: Marks that English has not, or has others for.
_MARKS = str.maketrans(
    {
        **dict.fromkeys("\u00a1\u00bf", ""),
        **dict.fromkeys("\uff0c\u3001\u060c", ", "),
        **{
            "\u3002": ". ",
            "\u0964": ". ",
            "\uff1b": "; ",
            "\u061b": "; ",
            "\uff1f": "? ",
            "\u061f": "? ",
        },
        **{"\uff01": "! "},
    }
)
_SPACES = re.compile("  ++")
#: What ends a clause.
_MARK = re.compile(r"[.,;:!?\n]")
_JOINING = frozenset(("und", "oder", "en", "of"))
#: An identifier is no word of any language (createInvoice), but for German ones of both genders.
_IDENTIFIER = re.compile(r"[a-z][A-Z](?!n(?:nen)?\b)")


class Piece(NamedTuple):
    """What of a text an entry stands for: its characters, and the English, "" for nothing."""

    start: int
    end: int
    english: str


def readings(text: str, words: KnownWords) -> tuple[str, ...]:
    """The text with its words put into English, if there is a glossary of its language; then as it
    is, where tools have all of its words.

    Args:
        text: a caller's.
        words: of the tools that may be found.
    """
    script = script_of(text)
    if script is not LATIN and has_english(text):
        return (text,)
    if script.spaced:
        pieces = _of_letters(text, script)
    else:
        pieces = _of_characters(text, glossary(*script.languages))
    return (text,) if not pieces or is_pleasantry(text) else _put(text, pieces, words)


def takes_long(text: str) -> bool:
    """Whether `readings` would have to read glossaries first."""
    script = script_of(text)
    return not READ.keys() >= {*script.languages} and not (script.spaced and looks_english(text))


def _of_characters(text: str, known: Glossary) -> list[Piece]:
    """The pieces of a text without spaces."""
    pieces: list[Piece] = []
    for run in _UNSPACED.finditer(text):
        at = run.start()
        while at < run.end() and len(pieces) < _MOST:
            found = known.within(text, at, run.end())
            if found is not None:
                pieces.append(Piece(at, at + found.taken, found.english))
                at += found.taken
                continue
            if _ENDING.match(text, at):
                pieces.append(Piece(at, at + 1, ""))
            elif pieces and run.start() < pieces[-1].start == at - 1:
                pieces.pop()  # one character before an unknown one: both are of a longer word
            at += 1
    return pieces


def _of_letters(text: str, script: Script) -> list[Piece]:
    """The pieces of a text in the language that knows most of its words; none of English."""
    if looks_english(text):
        return []
    words = islice(STANDALONE.finditer(text), _MOST)
    found = [word for word in words if not _IDENTIFIER.search(word[0])]
    known = glossary_for(text, found, script)
    return [] if known is None else _known_by(known, text, found)


def _known_by(known: Glossary, text: str, found: Sequence[re.Match[str]]) -> list[Piece]:
    """The pieces of a text by one glossary."""
    pieces: list[Piece] = []
    words = [word[0].casefold() for word in found]
    names = [False] * len(found) if known.capital_nouns else names_in(text, found)
    parted = _parted(known, text, found, words) if known.parts_verbs else {}
    at = 0
    while at < len(found):
        if (english := parted.get(at)) is not None:
            pieces.append(Piece(found[at].start(), found[at].end(), english))
            at += 1
            continue
        entry = known.find(words, at, _together(text, found, at))
        if entry is None or (not entry.exact and (names[at] or _is_english(known, words[at]))):
            at += 1  # a name is no inflected word
            continue
        end = at + entry.taken
        pieces.append(Piece(found[at].start(), found[end - 1].end(), entry.english))
        at = end
    return pieces


def _parted(
    known: Glossary, text: str, found: Sequence[re.Match[str]], words: Sequence[str]
) -> dict[int, str]:
    """The English of verbs whose second part ends their clause, "" for that part, by place."""
    parted: dict[int, str] = {}
    begin = 0
    for last in range(len(found)):
        after = found[last + 1].start() if last + 1 < len(found) else len(text)
        gap = text[found[last].end() : after]
        ends = last + 1 == len(found) or words[last + 1] in _JOINING or _MARK.search(gap)
        if not ends:
            continue
        for at in range(begin, last - 1):
            english = known.parted(words[at], words[last])
            if english is not None:
                parted |= {at: english, last: ""}
                break
        begin = last + 1
    return parted


def _is_english(known: Glossary, word: str) -> bool:
    """Whether a word is English rather than one inflected: checkout, in spite of `checken`."""
    return is_english_word(word) and not known.has_stem(word)


def _together(text: str, found: Sequence[re.Match[str]], at: int) -> int:
    """Up to where the words from one on stand side by side, a phrase's length at most."""
    end = at + 1
    while end < min(len(found), at + Glossary.PHRASE):
        if not _GAP.fullmatch(text, found[end - 1].end(), found[end].start()):
            break
        end += 1
    return end


def _put(text: str, pieces: Sequence[Piece], words: KnownWords) -> tuple[str, ...]:
    """The text with the English of its pieces, or as it is, if the tools speak its language; both,
    if some have all of its words.
    """
    parts: list[str] = []
    kept = put = at = 0
    spoken = True
    for piece in pieces:
        between, given, said = text[at : piece.start], text[piece.start : piece.end], piece.english
        if terms(said) and (mine := min(map(words.tools, terms(given)), default=0)):
            spoken &= not is_english_word(given.casefold())
            stays = mine >= max(map(words.tools, terms(said)))
            said = given if stays else f"{said} {given}"
            if given.casefold() != piece.english:  # what is the same in English tells nothing
                kept += stays
                put += not stays
        else:
            put += (says := bool(terms(said)))
            spoken &= not says
        if is_cjk(given):
            said = f" {said} "
        parts += [" " if at and between in ("", *_JOINTS) else between, said]
        at = piece.end
    if kept > put:
        return (text,)
    english = _SPACES.sub(" ", "".join([*parts, text[at:]]).translate(_MARKS)).strip()
    return (english, text) if spoken and kept + put else (english,)
