"""A query of another language, word for word in English.

Owns: which texts are of another language and of which, and which of their words stay as they are.
Never imports embedders, indexes or rankers.

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

from armory.retrieval.languages.glossary import READ, Glossary, glossary
from armory.retrieval.lexical.known_words import KnownWords
from armory.retrieval.lexical.pleasantries import is_pleasantry
from armory.retrieval.lexical.spelling import LEAST_CHARS, is_english, is_foreign
from armory.retrieval.lexical.text import STANDALONE, STOP_WORDS, fold, is_cjk, terms

#: Text without spaces, and what of it ends Japanese words.
_UNSPACED = re.compile(r"[\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]++")
_ENDING = re.compile(r"[\u3040-\u309f]")
#: Words of one text that are looked at; more say no more about its language.
_MOST = 400
#: Of the first words of a text in another language one in so many at least is no English one.
_STRANGE = 4
#: Words that tell what language a text is of: long ones, and those of other letters.
_TELLING = re.compile(r"[^\W\d_]{4,}+|(?:(?![\x00-\x7f])[^\W\d_])++")
_FIRST = 14
_WORD = re.compile(r"[A-Za-z]++")
_SMALL = 2
#: English words that are too short to stand in the list of those that are spelt right.
_SHORT_WORDS = """
act add age ago ahead air app art ask bad bag bar bed bet big bit box boy bug bus buy car cat cup
cut day dog dry due ear eat egg end eye far fee few fit fix fly fun gas gym hit hot job key kid kit
lab lat law leg let log lot low man map max men met min mix mom net new news now oil old one pay pen
pet pie put raw red rid row run sad sat saw say sea see set sex six sky sum sun tag tap tax tea ten
tie tip top toy try tv two van vet wet win won yes yet zip zoo
"""
_SHORT = frozenset(_SHORT_WORDS.split())
#: What stands between the words of a phrase.
_GAP = re.compile(r"\s{1,3}|[-'\u2019]")
#: Joins two words of which English makes no one: donne-moi, l'heure.
_JOINTS = ("-", "'", "\u2019")
#: How a sentence ends, what may stand before the next, and how many characters are looked at.
_SENTENCE = ".!?:\n"
_OPENING = " \"'(\u2018\u201c\u201e\u00ab\u00bf\u00a1"
_BEFORE = 4
#: Marks that English has not, or has others for.
_MARKS = str.maketrans(
    {
        **dict.fromkeys("\u00a1\u00bf", ""),
        **dict.fromkeys("\uff0c\u3001", ", "),
        **{"\u3002": ". ", "\uff1b": "; ", "\uff1f": "? ", "\uff01": "! "},
    }
)
_SPACES = re.compile("  ++")


class Script(NamedTuple):
    """The letters of some languages, and whether spaces stand between their words."""

    letters: re.Pattern[str]
    spaced: bool
    languages: Sequence[str]


#: Of those that a text has letters of the first counts; Japanese has Chinese ones as well.
SCRIPTS = (
    Script(re.compile(r"[\u3040-\u30ff]"), False, ("ja",)),
    Script(re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"), False, ("zh",)),
    Script(re.compile(r"[\uac00-\ud7a3]"), True, ("ko",)),
    Script(re.compile(r"[\u0400-\u04ff]"), True, ("ru",)),
    Script(re.compile(r"[A-Za-z\u00c0-\u024f]"), True, ("de", "es", "fr", "hu", "it", "pt")),
)


class Piece(NamedTuple):
    """What of a text an entry stands for: its characters, and the English, "" for nothing."""

    start: int
    end: int
    english: str


def in_english(text: str, words: KnownWords) -> str:
    """The text with its words put into English, if there is a glossary of its language.

    Args:
        text: a caller's.
        words: of the tools that may be found.
    """
    script = _script_of(text)
    if script.spaced:
        pieces = _of_letters(text, script.languages)
    elif _has_english(text):
        return text
    else:
        pieces = _of_characters(text, glossary(*script.languages))
    return text if not pieces or is_pleasantry(text) else _put(text, pieces, words)


def takes_long(text: str) -> bool:
    """Whether `in_english` would have to read glossaries first."""
    script = _script_of(text)
    return not READ.keys() >= {*script.languages} and not (script.spaced and _looks_english(text))


def _script_of(text: str) -> Script:
    if text.isascii():
        return SCRIPTS[-1]
    return next((script for script in SCRIPTS if script.letters.search(text)), SCRIPTS[-1])


def _has_english(text: str) -> bool:
    """Whether English stands around what is Chinese in a text, not a few terms among it."""
    small = (word[0].lower() in STOP_WORDS for word in _WORD.finditer(text))
    return sum(islice(filter(None, small), _SMALL)) == _SMALL


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


def _of_letters(text: str, languages: Sequence[str]) -> list[Piece]:
    """The pieces of a text in the language that knows most of its words; none of English."""
    if _looks_english(text):
        return []
    found = list(islice(STANDALONE.finditer(text), _MOST))
    known = _glossary_for(text, found[:_FIRST], languages)
    return [] if known is None else _known_by(known, text, found)


def _glossary_for(
    text: str, found: Sequence[re.Match[str]], languages: Sequence[str]
) -> Glossary | None:
    """That of the language of some words; None where they are more English than any other."""
    words = [word[0].casefold() for word in found]
    own = [*map(_is_own, words)]
    strange = [
        not mine and (len(word) >= LEAST_CHARS or not word.isascii())
        for word, mine in zip(words, own, strict=True)
    ]
    names = [_is_name(text, word) for word in found]
    # English words tell against a language, and so do strange ones that it has not; names do not
    against = [
        (mine or odd) and not name for name, mine, odd in zip(names, own, strange, strict=True)
    ]
    best, most = None, 0
    for known in map(glossary, languages):
        heard = [True] * len(words) if known.capital_nouns else [not name for name in names]
        knows = [it and known.knows(word) for it, word in zip(heard, words, strict=True)]
        surplus = sum(not own[i] if it else -against[i] for i, it in enumerate(knows))
        telling = [words[i] for i, it in enumerate(knows) if it and strange[i]]
        # as much of either is enough for a word that accents aside is no English one: wetter berlin
        even = surplus == most and best is None and not all(_is_own(fold(it)) for it in telling)
        if telling and (surplus > most or even):
            best, most = known, surplus
    return best


def _looks_english(text: str) -> bool:
    """Whether hardly any of the first words of a text is no English one; quick."""
    first = [word[0].casefold() for word in islice(_TELLING.finditer(text), _FIRST)]
    strange = sum(not _is_own(word) for word in first)
    return _STRANGE * strange < max(len(first), 1)


def _is_own(word: str) -> bool:
    """Whether a case folded word is an English one; one with an accent is not."""
    if not word.isascii():
        return False
    if word in STOP_WORDS or word in _SHORT:
        return True
    return is_english(word) and not is_foreign(word)


def _known_by(known: Glossary, text: str, found: Sequence[re.Match[str]]) -> list[Piece]:
    """The pieces of a text by one glossary."""
    pieces: list[Piece] = []
    words = [word[0].casefold() for word in found]
    at = 0
    while at < len(found):
        entry = known.find(words, at, _together(text, found, at))
        name = not known.capital_nouns and _is_name(text, found[at])
        if entry is None or (name and not entry.exact):  # an inflected name is none
            at += 1
            continue
        end = at + entry.taken
        pieces.append(Piece(found[at].start(), found[end - 1].end(), entry.english))
        at = end
    return pieces


def _together(text: str, found: Sequence[re.Match[str]], at: int) -> int:
    """Up to where the words from one on stand side by side, a phrase's length at most."""
    end = at + 1
    while end < min(len(found), at + Glossary.PHRASE):
        if not _GAP.fullmatch(text, found[end - 1].end(), found[end].start()):
            break
        end += 1
    return end


def _is_name(text: str, word: re.Match[str]) -> bool:
    """Whether a word begins with a capital, but no sentence."""
    before = text[max(word.start() - _BEFORE, 0) : word.start()].rstrip(_OPENING)
    return word[0][0].isupper() and not text.isupper() and before[-1:] not in ("", *_SENTENCE)


def _put(text: str, pieces: Sequence[Piece], words: KnownWords) -> str:
    """The text with the English of its pieces; as it is, if the tools speak its language."""
    parts: list[str] = []
    kept = put = at = 0
    for piece in pieces:
        between, given, said = text[at : piece.start], text[piece.start : piece.end], piece.english
        if terms(said) and (mine := min(map(words.tools, terms(given)), default=0)):
            stays = mine >= max(map(words.tools, terms(said)))
            said = given if stays else f"{said} {given}"
            kept += stays
            put += not stays
        else:
            put += bool(terms(said))
        if is_cjk(given):
            said = f" {said} "
        parts += [" " if at and between in ("", *_JOINTS) else between, said]
        at = piece.end
    if kept > put:
        return text
    return _SPACES.sub(" ", "".join([*parts, text[at:]]).translate(_MARKS)).strip()
