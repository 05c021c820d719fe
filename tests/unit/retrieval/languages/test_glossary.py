"""Glossaries: how their entries are found, and that those which ship are well formed."""

from __future__ import annotations

from collections import Counter

import pytest

from armory.retrieval.languages.detection import SCRIPTS
from armory.retrieval.languages.glossary import FOLDER, Glossary, GlossaryMatch

LANGUAGES = sorted({language for script in SCRIPTS for language in script.languages})
#: Smaller than the others.
SMALL = {"ar", "cs", "hi", "id", "tr", "uk", "vi"}
GERMAN = Glossary(
    "de",
    """
# a comment
datei-: file
zeig-, siehst: show
lösch-: delete
ander-: other
änder-: change
kalender: calendar
eintrag-: entry
wie viel uhr: what time
stell- vor: introduce
doch:
stell-: put
""",
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("datei", GlossaryMatch(1, "file", exact=False)),
        ("dateien", GlossaryMatch(1, "file", exact=False)),
        ("siehst du", GlossaryMatch(1, "show")),
        ("doch", GlossaryMatch(1, "")),
        ("lösche", GlossaryMatch(1, "delete", exact=False)),
        ("losche", GlossaryMatch(1, "delete", exact=False)),
        ("loesche", GlossaryMatch(1, "delete", exact=False)),
        ("ändere", GlossaryMatch(1, "change", exact=False)),  # with its accent it is no other word
        ("andere", GlossaryMatch(1, "other", exact=False)),
        ("aendere", GlossaryMatch(1, "change", exact=False)),
        ("wie viel uhr ist es", GlossaryMatch(3, "what time")),
        ("wie viel", None),
        ("stelle vor", GlossaryMatch(2, "introduce")),
        ("stelle hin", GlossaryMatch(1, "put", exact=False)),
        ("kalendereintrag", GlossaryMatch(1, "calendar entry", exact=False)),
        ("kalendereinträge", GlossaryMatch(1, "calendar entry", exact=False)),
        ("kalenderblatt", None),
        ("unbekannt", None),
        ("zeig" + "e" * 10_000, None),
    ],
)
def test_an_entry_is_found_in_all_its_forms(text: str, found: GlossaryMatch | None) -> None:
    words = text.split()
    assert GERMAN.find(words, 0, len(words)) == found


def test_a_phrase_does_not_reach_over_what_stands_between() -> None:
    assert GERMAN.find(["stelle", "vor"], 0, 1) == GlossaryMatch(1, "put", exact=False)
    assert GERMAN.find(["zeig", "stelle", "vor"], 1, 3) == GlossaryMatch(2, "introduce")


def test_words_without_an_entry_of_their_own_are_not_known() -> None:
    assert GERMAN.knows("dateien")
    assert GERMAN.knows("losche")
    assert not GERMAN.knows("branch")
    assert not GERMAN.knows("файл")
    assert not GERMAN.knows("datei" * 10_000)


def test_arabic_words_are_found_behind_what_is_written_in_front_of_them() -> None:
    arabic = Glossary("ar", "ملف: file\nمستند-: document\nفي: in")
    for text in ("ملف", "الملف", "والملف", "بالملف", "للملف", "لملف"):
        assert arabic.knows(text), text
        found = arabic.find([text], 0, 1)
        assert found is not None, text
        assert found.english == "file", text
    assert arabic.find(["المستندات"], 0, 1) == GlossaryMatch(1, "document", exact=False)
    assert arabic.find(["وفي"], 0, 1) is None  # too little is left


def test_of_a_tonal_language_accents_are_left_out_of_all_words_or_none() -> None:
    vietnamese = Glossary("vi", "nơi: place")
    assert vietnamese.find(["nơi"], 0, 1) == GlossaryMatch(1, "place")
    assert vietnamese.find(["noi"], 0, 1) == GlossaryMatch(1, "place")
    assert vietnamese.find(["nội"], 0, 1) is None


def test_of_characters_the_longest_entry_counts() -> None:
    chinese = Glossary("zh", "文件: file\n文件夹: folder\n的:")
    assert chinese.within("新文件夹", 1, 4) == GlossaryMatch(3, "folder")
    assert chinese.within("新文件夹", 1, 3) == GlossaryMatch(2, "file")
    assert chinese.within("的", 0, 1) == GlossaryMatch(1, "")
    assert chinese.within("新文件夹", 0, 4) is None


def test_a_line_that_is_no_entry_is_told() -> None:
    with pytest.raises(ValueError, match="de: 'datei file' is no entry"):
        Glossary("de", "datei file")


@pytest.mark.parametrize("language", LANGUAGES)
def test_those_that_ship_are_well_formed(language: str) -> None:
    forms = Counter[str]()
    for line in (FOLDER / f"{language}.txt").read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        left, mark, english = line.partition(":")
        assert mark, line
        assert english.isascii(), line
        assert english.strip() == english.strip().lower() or english.strip(), line
        for form in map(str.strip, left.split(",")):
            assert form.removesuffix("-"), line
            assert len(form.split()) <= Glossary.PHRASE, line
            forms[form.casefold()] += 1
    assert len(forms) > (500 if language in SMALL else 1_500)
    assert [form for form, count in forms.items() if count > 1] == []


def test_every_file_is_used() -> None:
    assert [path.stem for path in sorted(FOLDER.glob("*.txt"))] == LANGUAGES
