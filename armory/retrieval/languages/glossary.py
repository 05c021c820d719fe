"""Glossaries: the words of one language and their English.

Owns: `Glossary`, reading the files beside it. Never imports anything of Armory but the tokenizer.

A file is a line an entry: `form, form: english words`. A form is a word or up to six; one that
ends in `-` stands for every word that begins so. Forms are compared folded, so that accents may be
left out. A Chinese form stands for its characters wherever they are. Where the English is `=`, the
forms are names that look like forms of something else (Müller), and none of this language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from armory.retrieval.lexical.text import KEPT_CHARS, fold

FOLDER = Path(__file__).parent
#: Glossaries that are in memory.
READ: dict[str, Glossary] = {}
#: Whose nouns begin with a capital, and join without a hyphen.
_GERMAN = "de"
#: What ends a clause and belongs to its verb: "mach das Licht aus", "zet de lamp uit".
_PARTICLES = {
    "de": ("ab", "an", "auf", "aus", "ein", "hinzu", "hoch", "runter", "vor", "zu"),
    "nl": ("aan", "af", "in", "op", "toe", "uit"),
}
#: Whose words begin with "and", "in", "for" and "the": wa-bi-l-milaff. Longest first; the last of
#: them is of one letter, so what is left has to be a word of some length.
_ARABIC = "ar"
_PREFIXES = ("وال", "بال", "فال", "كال", "لل", "ال", "و", "ب", "ل", "ف")
_LEAST_REST = 3
#: Whose accents make other words: what has some is never read without them.
_TONAL = "vi"
_STAYS = "="
#: Letters whose strokes are no accents to Unicode, and are left out as those are.
_STROKES = str.maketrans("łøđı", "lodi")
#: Two signs of Hindi for the same sound, the one of which is written for the other.
_NASALS = str.maketrans("\u0902", "\u0901")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
#: Letters of each part of a compound at least, and what may stand between two parts.
_LEAST_PART = 4
_LINKS = ("", "s", "n", "es", "en")


class GlossaryMatch(NamedTuple):
    """An entry that was found in a text.

    Attributes:
        taken: how many words it is there, of Chinese how many characters; >= 1.
        english: what they are; "" where that says nothing.
        exact: whether they are a form as it stands, no inflection of one.
    """

    taken: int
    english: str
    exact: bool = True


class _Phrase(NamedTuple):
    """What follows the first word, (word, whether a stem) each, and the English of all."""

    rest: list[tuple[str, bool]]
    english: str


class Glossary:
    """The entries of a language.

    Args:
        language: its code, as in the name of its file.
        text: the file.

    Raises:
        ValueError: a line is no entry.
    """

    #: Words of a phrase at most.
    PHRASE = 6

    def __init__(self, language: str, text: str) -> None:
        self.language = language
        self._words: dict[str, str] = {}
        self._stems: dict[str, str] = {}
        self._names: set[str] = set()
        self._phrases: dict[str, list[_Phrase]] = {}  # by first word or stem, the longest first
        entries = [*_entries(language, text)]
        for form, english in entries:
            self._add(form, english)
        for form, english in entries:  # behind the others: what is spelt so is meant
            if not form.isascii():
                bare = fold(form)
                for spelt in {
                    bare,
                    bare.translate(_STROKES),
                    fold(form.translate(_UMLAUTS)),
                    form.translate(_NASALS),
                }:
                    if spelt != form:
                        self._add(spelt, english)
        for phrases in self._phrases.values():
            phrases.sort(key=lambda phrase: -len(phrase.rest))
        self._longest = max(map(len, self._words), default=0)
        self._sizes = sorted({*map(len, self._stems)}, reverse=True)
        begun = {len(first) - 1 for first in self._phrases if first.endswith("-")}
        self._phrase_sizes = sorted(begun, reverse=True)

    @property
    def capital_nouns(self) -> bool:
        """Whether any noun begins with a capital, not names alone."""
        return self.language == _GERMAN

    def _add(self, form: str, english: str) -> None:
        first, *others = form.split()
        if english == _STAYS:
            self._names.add(form)
        elif others:
            rest = [(word.removesuffix("-"), word.endswith("-")) for word in others]
            self._phrases.setdefault(first, []).append(_Phrase(rest, english))
        elif first.endswith("-"):
            self._stems.setdefault(first[:-1], english)
        else:
            self._words.setdefault(first, english)

    def knows(self, word: str) -> bool:
        """Whether a case folded word is a form, or one inflected; phrases and compounds aside."""
        if len(word) > KEPT_CHARS:
            return False
        if word in self._names:
            return False
        if self._entry(word) is not None:
            return True
        bare = word if word.isascii() else fold(word)
        return bare != word and self._entry(bare) is not None

    def has_stem(self, word: str) -> bool:
        """Whether a case folded word is a stem as it stands."""
        return word in self._stems

    def find(self, words: Sequence[str], at: int, end: int) -> GlossaryMatch | None:
        """The entry for words of a text, accents and all, else without them: the longest phrase,
        else the word, else the longest stem of it, else a compound.

        Args:
            words: of a text, case folded.
            at: the first of the entry.
            end: where the next word does not follow the last one at once.
        """
        given = words[at:end]
        if len(given[0]) > KEPT_CHARS:
            return None
        found = self._found(given)
        if found is None and self.language != _TONAL and not all(map(str.isascii, given)):
            return self._found([fold(word) for word in given])
        return found

    def _found(self, words: Sequence[str]) -> GlossaryMatch | None:
        word = words[0]
        if word in self._names:
            return None
        if len(words) > 1 and (found := self._phrase(words)) is not None:
            return found
        if (english := self._words.get(word)) is not None:
            return GlossaryMatch(1, english)
        english = self._entry(word)
        if self.language == _GERMAN and len(word) - self._stem_size(word) >= _LEAST_PART:
            english = self._compound(word) or english
        return None if english is None else GlossaryMatch(1, english, exact=False)

    def _entry(self, word: str) -> str | None:
        """The English of a form, else of the longest stem of a word, else of what follows a prefix
        of it.
        """
        if (english := self._words.get(word)) is not None:
            return english
        if size := self._stem_size(word):
            return self._stems[word[:size]]
        for prefix in _PREFIXES if self.language == _ARABIC else ():
            rest = word.removeprefix(prefix)
            if rest != word and len(rest) >= _LEAST_REST:
                size = self._stem_size(rest)
                english = self._words.get(rest) or (self._stems[rest[:size]] if size else None)
                if english is not None:
                    return english
        return None

    def _phrase(self, words: Sequence[str]) -> GlossaryMatch | None:
        first = words[0]
        starts = [first, *(f"{first[:size]}-" for size in self._phrase_sizes if size <= len(first))]
        for start in starts:
            for phrase in self._phrases.get(start, ()):
                if _begin(words[1:], phrase.rest):
                    return GlossaryMatch(1 + len(phrase.rest), phrase.english)
        return None

    def parted(self, first: str, last: str) -> str | None:
        """The English of a verb that is parted: of "mach ... aus" that of `mach aus`."""
        if last not in _PARTICLES.get(self.language, ()):
            return None
        phrases = self._phrases.get(first, ())
        return next((one.english for one in phrases if one.rest == [(last, False)]), None)

    @property
    def parts_verbs(self) -> bool:
        """Whether a verb may stand in two parts, the second at the end of its clause."""
        return self.language in _PARTICLES

    def within(self, text: str, at: int, end: int) -> GlossaryMatch | None:
        """The longest entry that characters of a text begin with, from one place up to another."""
        for size in range(min(self._longest, end - at), 0, -1):
            if (english := self._words.get(text[at : at + size])) is not None:
                return GlossaryMatch(size, english)
        return None

    def _stem_size(self, word: str) -> int:
        """How long the longest stem of a word is; 0 without one."""
        for size in self._sizes:
            if word[:size] in self._stems:
                return min(size, len(word))
        return 0

    def _compound(self, word: str) -> str | None:
        """The English of a word made of two: Kalendereintrag -> calendar entry."""
        for cut in range(len(word) - _LEAST_PART, _LEAST_PART - 1, -1):
            first = self._part(word[:cut])
            rest = word[cut:]
            size = self._stem_size(rest)
            second = self._words.get(rest) or (self._stems[rest[:size]] if size else "")
            if first and second:
                return f"{first} {second}"
        return None

    def _part(self, word: str) -> str | None:
        """The English of the first part of a compound, its link with the next taken off."""
        for link in _LINKS:
            if word.endswith(link):
                bare = word[: len(word) - len(link)]
                if english := self._words.get(bare) or self._stems.get(bare):
                    return english
        return None


def _begin(words: Sequence[str], rest: Sequence[tuple[str, bool]]) -> bool:
    """Whether words begin with the (word, whether a stem) of a phrase."""
    return len(words) >= len(rest) and all(
        word.startswith(form) if is_stem else word == form
        for word, (form, is_stem) in zip(words, rest, strict=False)
    )


def _entries(language: str, text: str) -> Iterator[tuple[str, str]]:
    """The forms of a file, case folded, and their English."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            forms, mark, english = line.partition(":")
            if not mark:
                raise ValueError(f"{language}: {line!r} is no entry; expected `form: english`")
            for form in forms.split(","):
                yield form.strip().casefold(), english.strip()


def glossary(language: str) -> Glossary:
    """The one that ships for a language; the first time it is read, which takes some 15 ms."""
    known = READ.get(language)
    if known is None:
        text = (FOLDER / f"{language}.txt").read_text(encoding="utf-8")
        known = READ[language] = Glossary(language, text)
    return known
