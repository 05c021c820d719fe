"""Detects the language of a text, among those with a glossary.

Owns: the scripts, and telling a language by the words that its glossary has. Never imports
embedders, indexes or rankers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from armory.retrieval.languages.glossary import Glossary, glossary
from armory.retrieval.lexical.spelling import LEAST_CHARS, is_english, is_foreign
from armory.retrieval.lexical.text import STOP_WORDS, fold

#: Of the first words of a text in another language one in so many at least is no English one.
_STRANGE = 4
#: Words that tell what language a text is of: long ones, and those of other letters.
_TELLING = re.compile(r"[^\W\d_]{4,}+|(?:(?![\x00-\x7f])[^\W\d_])++")
_FIRST = 14
#: Of a text so short, so many small words that are no English ones tell as well, if they are half
#: of it: "wer ist online?".
_SHORT_CHARS, _SMALL_WORDS = 60, 2
_LETTERS = re.compile(r"[^\W\d_]++")
#: So many small English words make a text with other letters in it an English one.
_SMALL = 2
_WORD = re.compile(r"[A-Za-z]++")
#: English words that are too short to stand in the list of those that are spelt right.
_SHORT_WORDS = """
act add age ago ahead air api app art ask bad bag bar bed bet big bit box boy bug bus buy car cat
cup cut day dog dry due ear eat egg end eye far fee few fit fix fly fun gas go gym hit hot job key
kid kit lab lat law leg let log lot low man map max men met min mix mom net new news now oil ok old
one pay pen pet pie put raw red rid row run sad sat saw say sea see set sex six sky sum sun tag tap
tax tea ten tie tip top toy try tv two url usd van vet wet win won yes yet zip zoo
"""
_SHORT = frozenset(_SHORT_WORDS.split())
#: How a sentence ends, what may stand before the next, and how many characters are looked at.
_SENTENCE = ".!?:\n"
_OPENING = " \"'(\u2018\u201c\u201e\u00ab\u00bf\u00a1"
_BEFORE = 4


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
    Script(re.compile(r"[\u0600-\u06ff]"), True, ("ar",)),
    Script(re.compile(r"[\u0900-\u097f]"), True, ("hi",)),
    Script(re.compile(r"[\u0404\u0406\u0407\u0454\u0456\u0457\u0490\u0491]"), True, ("uk",)),
    Script(re.compile(r"[\u0400-\u04ff]"), True, ("ru", "uk")),
    Script(
        re.compile(r"[A-Za-z\u00c0-\u024f\u1ea0-\u1ef9]"),
        True,
        ("de", "es", "fr", "hu", "it", "nl", "pl", "pt", "cs", "id", "tr", "vi", "hi"),
    ),
)

LATIN = SCRIPTS[-1]


def script_of(text: str) -> Script:
    """The script of a text; of several the first of `SCRIPTS`."""
    if text.isascii():
        return LATIN
    return next((script for script in SCRIPTS if script.letters.search(text)), LATIN)


def has_english(text: str) -> bool:
    """Whether English stands around what has other letters in a text, not a few terms among it."""
    small = (word[0].lower() in STOP_WORDS for word in _WORD.finditer(text))
    return sum(islice(filter(None, small), _SMALL)) == _SMALL


def glossary_for(text: str, found: Sequence[re.Match[str]], script: Script) -> Glossary | None:
    """That of the language that has most of a text's first words; None where they are English.

    Args:
        text: the text.
        found: its words.
        script: whose languages there are to choose from.
    """
    found = found[:_FIRST]
    words = [word[0].casefold() for word in found]
    own = [*map(is_own, words)]
    strange = [
        not mine and (len(word) >= LEAST_CHARS or not word.isascii())
        for word, mine in zip(words, own, strict=True)
    ]
    small = _small(text, words, own)
    names = names_in(text, found)
    # English words tell against a language of the same letters, and so do strange ones that it has
    # not; names do not
    against = [
        (mine or odd) and not name and (script is LATIN or not word.isascii())
        for name, mine, odd, word in zip(names, own, strange, words, strict=True)
    ]
    best, most = None, 0
    for known in map(glossary, script.languages):
        heard = [True] * len(words) if known.capital_nouns else [not name for name in names]
        knows = [it and known.knows(word) for it, word in zip(heard, words, strict=True)]
        surplus = sum(not own[i] if it else -against[i] for i, it in enumerate(knows))
        telling = [words[i] for i, it in enumerate(knows) if it and strange[i]]
        tiny = {words[i] for i, it in enumerate(knows) if it and small[i]}
        if len(tiny) >= max(_SMALL_WORDS, len(words) / 2):
            telling += tiny
        # as much of either is enough for a word that accents aside is no English one: wetter berlin
        even = surplus == most and best is None and not all(is_own(fold(it)) for it in telling)
        if telling and (surplus > most or even):
            best, most = known, surplus
    return best


def _small(text: str, words: Sequence[str], own: Sequence[bool]) -> list[bool]:
    """Which words are small ones that tell the language of a short text; none where too few do."""
    if len(text) > _SHORT_CHARS:
        return [False] * len(words)
    found = [
        not mine and 1 < len(word) < LEAST_CHARS for word, mine in zip(words, own, strict=True)
    ]
    enough = sum(found) >= max(_SMALL_WORDS, len(words) / 2)
    return found if enough else [False] * len(words)


def looks_english(text: str) -> bool:
    """Whether hardly any of the first words of a text is no English one; quick."""
    if len(text) <= _SHORT_CHARS:
        words = [word[0].casefold() for word in _LETTERS.finditer(text)]
        if any(_small(text, words, [len(word) >= LEAST_CHARS or is_own(word) for word in words])):
            return False
    first = [word[0].casefold() for word in islice(_TELLING.finditer(text), _FIRST)]
    strange = sum(not is_own(word) for word in first)
    return _STRANGE * strange < max(len(first), 1)


def is_own(word: str) -> bool:
    """Whether a case folded word is an English one; one with an accent is not."""
    if not word.isascii():
        return False
    if word in STOP_WORDS or word in _SHORT:
        return True
    return is_english(word) and not is_foreign(word)


def names_in(text: str, found: Sequence[re.Match[str]]) -> list[bool]:
    """Which words of a text begin with a capital, but no sentence; none where all are capitals."""
    if text.isupper():
        return [False] * len(found)
    return [word[0][0].isupper() and not _begins_sentence(text, word.start()) for word in found]


def _begins_sentence(text: str, at: int) -> bool:
    before = text[max(at - _BEFORE, 0) : at].rstrip(_OPENING)
    return before[-1:] in ("", *_SENTENCE)
