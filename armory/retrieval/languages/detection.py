"""Detects the language of a text, among those with a glossary.

Owns: the scripts, and recognizing a language by the words that its glossary has. Never imports
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

#: A text counts as English if fewer than one in so many of its first words is no English word.
_STRANGE = 4
#: Words that reveal the language of a text: long ones, and those in other letters.
_TELLING = re.compile(r"[^\W\d_]{4,}+|(?:(?![\x00-\x7f])[^\W\d_])++")
#: Words at the beginning of a text that are looked at.
_FIRST = 14
#: In a text of at most so many characters, at least so many small words that are no English ones
#: reveal the language as well, if they are half of its words: "wer ist online?".
_SHORT_CHARS, _SMALL_WORDS = 60, 2
_LETTERS = re.compile(r"[^\W\d_]++")
#: Small English words that make a text with other letters in it an English one.
_SMALL = 2
_WORD = re.compile(r"[A-Za-z]++")
#: English words that are too short for the list of correct spellings.
_SHORT_WORDS = """
act add age ago ahead air api app art ask bad bag bar bed bet big bit box boy bug bus buy car cat
cup cut day dog dry due ear eat egg end eye far fee few fit fix fly fun gas go gym hit hot job key
kid kit lab lat law leg let log lot low man map max men met min mix mom net new news now oil ok old
one pay pen pet pie put raw red rid row run sad sat saw say sea see set sex six sky sum sun tag tap
tax tea ten tie tip top toy try tv two url usd van vet wet win won yes yet zip zoo
"""
_SHORT = frozenset(_SHORT_WORDS.split())
#: How a sentence ends, what may open the next one, and how many characters are looked at for both.
_SENTENCE = ".!?:\n"
_OPENING = " \"'(\u2018\u201c\u201e\u00ab\u00bf\u00a1"
_BEFORE = 4


class Script(NamedTuple):
    """The letters of some languages, and whether spaces stand between their words."""

    letters: re.Pattern[str]
    spaced: bool
    languages: Sequence[str]


#: A text has the first script of which it has a letter; Japanese has Chinese letters as well.
SCRIPTS = (
    Script(re.compile(r"[\u3040-\u30ff]"), spaced=False, languages=("ja",)),
    Script(
        re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"), spaced=False, languages=("zh",)
    ),
    Script(re.compile(r"[\uac00-\ud7a3]"), spaced=True, languages=("ko",)),
    Script(re.compile(r"[\u0600-\u06ff]"), spaced=True, languages=("ar",)),
    Script(re.compile(r"[\u0900-\u097f]"), spaced=True, languages=("hi",)),
    Script(
        re.compile(r"[\u0404\u0406\u0407\u0454\u0456\u0457\u0490\u0491]"),
        spaced=True,
        languages=("uk",),
    ),
    Script(re.compile(r"[\u0400-\u04ff]"), spaced=True, languages=("ru", "uk")),
    Script(
        re.compile(r"[A-Za-z\u00c0-\u024f\u1ea0-\u1ef9]"),
        spaced=True,
        languages=("de", "es", "fr", "hu", "it", "nl", "pl", "pt", "cs", "id", "tr", "vi", "hi"),
    ),
)

LATIN = SCRIPTS[-1]


def script_of(text: str) -> Script:
    """The script of a text; of several the first of `SCRIPTS`."""
    if text.isascii():
        return LATIN
    return next((script for script in SCRIPTS if script.letters.search(text)), LATIN)


def has_english(text: str) -> bool:
    """Whether a text with other letters is English around them, beyond a few English terms."""
    small = (word[0].lower() in STOP_WORDS for word in _WORD.finditer(text))
    return sum(islice(filter(None, small), _SMALL)) == _SMALL


def glossary_for(text: str, found: Sequence[re.Match[str]], script: Script) -> Glossary | None:
    """The glossary of the language of a text, judged by its first words; None: it is English.

    Args:
        text: the text.
        found: its words.
        script: its script, whose languages are the candidates.
    """
    found = found[:_FIRST]
    words = [word[0].casefold() for word in found]
    english = [*map(is_english_word, words)]
    foreign = [
        not own and (len(word) >= LEAST_CHARS or not word.isascii())
        for word, own in zip(words, english, strict=True)
    ]
    small = _small(text, words, english)
    names = names_in(text, found)
    # English words speak against a language of the same letters, and so do foreign ones that its
    # glossary lacks; names do not
    against = [
        (own or other) and not name and (script is LATIN or not word.isascii())
        for name, own, other, word in zip(names, english, foreign, words, strict=True)
    ]
    best, most = None, 0
    for candidate in map(glossary, script.languages):
        counts = [candidate.capital_nouns or not name for name in names]
        knows = [count and candidate.knows(word) for count, word in zip(counts, words, strict=True)]
        surplus = sum(not english[i] if known else -against[i] for i, known in enumerate(knows))
        telling = [words[i] for i, known in enumerate(knows) if known and foreign[i]]
        tiny = {words[i] for i, known in enumerate(knows) if known and small[i]}
        if len(tiny) >= max(_SMALL_WORDS, len(words) / 2):
            telling += tiny
        # a tie is enough with a word that is no English one even without its accents: wetter berlin
        tie = (
            surplus == most
            and best is None
            and not all(is_english_word(fold(word)) for word in telling)
        )
        if telling and (surplus > most or tie):
            best, most = candidate, surplus
    return best


def _small(text: str, words: Sequence[str], english: Sequence[bool]) -> list[bool]:
    """Which words are small ones that reveal the language of a short text; none if too few are."""
    if len(text) > _SHORT_CHARS:
        return [False] * len(words)
    found = [
        not own and 1 < len(word) < LEAST_CHARS for word, own in zip(words, english, strict=True)
    ]
    enough = sum(found) >= max(_SMALL_WORDS, len(words) / 2)
    return found if enough else [False] * len(words)


def looks_english(text: str) -> bool:
    """Whether nearly all of the first words of a text are English; quick."""
    if len(text) <= _SHORT_CHARS:
        words = [word[0].casefold() for word in _LETTERS.finditer(text)]
        english = [len(word) >= LEAST_CHARS or is_english_word(word) for word in words]
        if any(_small(text, words, english)):
            return False
    first = [word[0].casefold() for word in islice(_TELLING.finditer(text), _FIRST)]
    strange = sum(not is_english_word(word) for word in first)
    return _STRANGE * strange < max(len(first), 1)


def is_english_word(word: str) -> bool:
    """Whether a case-folded word is English; a word with an accent is not."""
    if not word.isascii():
        return False
    if word in STOP_WORDS or word in _SHORT:
        return True
    return is_english(word) and not is_foreign(word)


def names_in(text: str, found: Sequence[re.Match[str]]) -> list[bool]:
    """Which words begin with a capital and no sentence; none of a text all in capitals."""
    if text.isupper():
        return [False] * len(found)
    return [word[0][0].isupper() and not _begins_sentence(text, word.start()) for word in found]


def _begins_sentence(text: str, at: int) -> bool:
    before = text[max(at - _BEFORE, 0) : at].rstrip(_OPENING)
    return before[-1:] in ("", *_SENTENCE)
