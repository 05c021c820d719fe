"""What the tokenizer makes of identifiers, accents and scripts."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from armory.retrieval.lexical import text as text_module
from armory.retrieval.lexical.text import (
    compounds,
    fold,
    is_cjk,
    spaced,
    split_identifier,
    terms,
    trigrams,
)


@pytest.mark.parametrize(
    "spelling", ["readFile", "read_file", "read-file", "ReadFile", "read.file"]
)
def test_spellings_of_one_identifier_meet(spelling: str) -> None:
    assert terms(spelling) == ["read", "file", "readfil"]


def test_the_signs_of_indian_letters_are_no_borders_of_words() -> None:
    assert len(terms("त्रुटियाँ दिखाओ")) == 2
    assert terms("லாக்") == terms("லாக், லாக்")[:1]
    assert set(terms("दिखाओ")) & set(terms("सूची दिखाओ"))


def test_the_written_together_form_meets_the_compound() -> None:
    assert set(terms("readfile")) & set(terms("read_file"))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("getHTTPStatus_v2", ["get", "HTTP", "Status", "v2"]),
        ("mp3_to_wav", ["mp3", "to", "wav"]),
        ("listPRs", ["list", "PRs"]),
        ("getIDsByName", ["get", "IDs", "By", "Name"]),
        ("APIs", ["APIs"]),
        ("saveSVGAsPNG", ["save", "SVG", "As", "PNG"]),
        ("__init__", ["init"]),
        ("", []),
    ],
)
def test_identifiers_split(name: str, parts: list[str]) -> None:
    assert split_identifier(name) == parts


@pytest.mark.parametrize("name", ["OAuth", "iPhone", "gRPC", "eBay", "iOS", "LaTeX"])
def test_names_of_one_word_meet_however_they_are_written(name: str) -> None:
    assert set(terms(name.lower())) <= set(terms(name))
    assert compounds(name) == set(terms(name.lower()))


@pytest.mark.parametrize("one", ["PR", "VM", "URL", "API", "PDF", "ID", "CPU", "CVE", "GPU", "NFT"])
def test_one_and_several_of_an_abbreviation_meet(one: str) -> None:
    assert terms(f"{one}s") == terms(f"{one.lower()}s") == terms(one.lower())


def test_a_word_that_ends_like_several_abbreviations_is_left_whole() -> None:
    assert terms("css rss users' user's") == ["css", "rss", "user", "user"]


def test_words_for_an_embedder() -> None:
    assert spaced("getHTTPStatus_v2") == "get http status v2"
    assert spaced("listPRs") == "list prs"


def test_inflected_forms_meet_and_stop_words_go() -> None:
    assert terms("Please convert the currencies") == terms("converting a currency")


def test_chinese_gives_bigrams_and_mixes_with_latin() -> None:
    assert terms("使用Bing搜索网页") == ["使用", "bing", "搜索", "索网", "网页"]
    assert terms("雨") == ["雨"]
    assert is_cjk("搜索")
    assert not is_cjk("bing")


def test_accents_and_width_do_not_matter() -> None:
    assert fold("IDŐJÁRÁS") == "idojaras"
    assert terms("Időjárás") == terms("idojaras")
    assert terms("\uff21\uff30\uff29") == terms("API")


def test_length_is_bounded() -> None:
    assert len(terms("word " * 50_000)) <= 4_000
    assert len(terms("a1b " * 100, limit=5)) == 5


def test_a_long_path_is_not_kept_whole() -> None:
    assert "abcdefgh" not in terms("a/b/c/d/e/f/g/h")


def test_trigrams_mark_borders() -> None:
    assert trigrams("cat") == {"^ca", "cat", "at$"}


def test_compounds_are_wholes_that_are_not_said_apart() -> None:
    assert compounds("readFile and http") == {"readfil"}
    assert compounds("GitHub github") == frozenset()


def test_threads_that_stem_at_once_do_not_disturb_each_other() -> None:
    """Searches and indexing tokenise on several threads."""
    roots = ("nation", "relation", "optim", "creat", "generous", "hope")
    tails = ("aliz", "iveness", "fulness", "ous", "ation")
    ends = ("ing", "ed", "s", "ation", "ly", "ness")
    words = [root + tail + end for root in roots for tail in tails for end in ends]
    stem = text_module._stem  # pyright: ignore[reportPrivateUsage] # without its cache
    wanted = [stem(word) for word in words]

    def stemmed(_: int) -> list[str]:
        return [stem(word) for word in words]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(found == wanted for found in pool.map(stemmed, range(12)))
    finally:
        sys.setswitchinterval(interval)
