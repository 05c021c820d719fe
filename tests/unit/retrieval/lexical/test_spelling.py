"""Misspelt words: what was meant, and what is left as it is."""

from __future__ import annotations

import numpy as np
import pytest

from armory.retrieval.lexical.bm25 import Fields, LexicalIndex
from armory.retrieval.lexical.known_words import KnownWords
from armory.retrieval.lexical.postings import Postings

TOOLS = {
    "git__commit": Fields("git_commit", "git", description="Records changes to the repository"),
    "git__branch": Fields("git_create_branch", "git", description="Create a branch"),
    "time__now": Fields("get_current_time", "time", description="Current time in a time zone"),
    "k8s__deploy": Fields("deploy", "kubernetes", description="Deploy an application to a cluster"),
    "web__search": Fields("search", "web", description="Search the web for files and pages"),
}


def corrected(postings: Postings, text: str, among: list[int] | None = None) -> str:
    rows = None if among is None else np.array(among, np.int64)
    return KnownWords(postings, rows).corrected(text)


@pytest.fixture
def postings() -> Postings:
    index = LexicalIndex()
    for key, fields in TOOLS.items():
        index.add(key, fields)
    return index.freeze()


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("deeploy", "deploy"),
        ("comit my chnges", "commit my changes"),
        ("what tiem is it in tokyo", "what time is it in tokyo"),
        ("creat a new branhc", "create a new branch"),
        ("serach", "search"),
        ("Serach the web", "search the web"),
        ("esarch", "search"),
        ("kuberntes", "kubernetes"),
        ("aplicaton", "application"),
        ("CREAT A NEW BRANHC", "create A NEW branch"),  # capitals throughout make no names
        ("DEEPLOY", "deploy"),
    ],
)
def test_a_misspelt_word_is_the_word_that_was_meant(
    postings: Postings, query: str, meant: str
) -> None:
    assert corrected(postings, query) == meant


@pytest.mark.parametrize(
    "query",
    [
        "what is the tide in Porto",  # tide is English, if no tool's word
        "brunch near me",  # one edit from branch
        "flights with Timo",  # a name within a text
        "send it to TIEM",
        "get the tie",  # too short for edits
        "searching",  # another form, which the stem knows
        "repositories",
        "weather",  # begins with another letter than any near word
        "x1234 y_z getTiem2",
        "file the tyme",  # a letter of four replaced: as often another word
        "kobernites",  # two letters replaced, and no other slip
        "read src/serach/comit.md",
        "https://example.com/serach?q=branhc",
        "mail bob@branhc.com",
        "git log --brancch=serach",
        "comit()",
    ],
)
def test_what_may_be_meant_stays(postings: Postings, query: str) -> None:
    assert corrected(postings, query) == query


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("serach aplicaton fiels chnges", "search application files changes"),
        ("creat a branhc for serach", "create a branch for search"),
        ("serach in fiels tomorow", "search in files tomorrow"),  # an English word, if no tool's
        ("deeploy teh aplicaton to kuberntes", "deploy teh application to kubernetes"),
    ],
)
def test_a_short_text_that_is_misspelt_throughout_is_put_right(
    postings: Postings, query: str, meant: str
) -> None:
    assert corrected(postings, query) == meant


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("what apointments do I have tomorow", "what appointments do I have tomorrow"),
        ("a paymnt of the custmers", "a payment of the customers"),
        ("the rate limiter of habitus", "the rate limiter of habitus"),
        ("unplaced parts", "unplaced parts"),  # made of an English word, and no slip
        ("shwo thier adress", "show their address"),  # short words: acts and small words
        ("opne it", "open it"),
        ("per diem for sehen", "per diem for sehen"),  # no act, and no small word
        ("ask the influencer", "ask the influencer"),  # another form of a word
        ("the mesages tomorow, the flihts", "the messages tomorrow, the flihts"),  # flights, flits
        ("keboola und die rechnung", "keboola und die rechnung"),
    ],
)
def test_a_word_that_no_tool_has_is_the_one_english_word_that_was_meant(
    postings: Postings, query: str, meant: str
) -> None:
    assert corrected(postings, query) == meant


@pytest.mark.parametrize(
    "query",
    [
        "crear archivo de texto",
        "lösche alle dateien vom server",
        "supprimer toutes les branches anciennes",
        "busca las paginas en la web de zona",
        "serach aplicaton fiels zorglub vantro",
        "neuen serach erstellen",
        "datie lesbar",
    ],
)
def test_another_language_is_left_as_it_is(query: str) -> None:
    index = LexicalIndex()
    index.add("a", Fields("create_text_archive", description="Clear files of a page by date"))
    index.add("b", Fields("search", description="Search application files"))
    assert corrected(index.freeze(), query) == query


@pytest.mark.parametrize(
    ("asked", "other"),
    [("look", "book"), ("mail", "main"), ("house", "mouse"), ("table", "cable")],
)
def test_a_word_that_rhymes_is_another(asked: str, other: str) -> None:
    index = LexicalIndex()
    index.add("a", Fields(f"{other}_it"))
    assert not index.freeze().search(asked).bm25().any()


def test_other_forms_of_a_word_stand_for_it() -> None:
    index = LexicalIndex()
    index.add("a", Fields("transcription"))
    assert index.freeze().search("transcribe").bm25().all()


@pytest.mark.parametrize(
    "term",
    ["toml", "docx", "wifi", "kubectl", "codec", "fasta", "nuxt", "apis", "psql", "nodejs", "webp"],
)
def test_terms_of_the_trade_are_no_misspellings(term: str) -> None:
    words = "tool docs wiki kubectx code fast next axis pgsql nodes web3"
    index = LexicalIndex()
    for number in range(12):
        index.add(f"t{number}", Fields(f"t{number}", description=words))
    assert corrected(index.freeze(), f"read the {term} for me") == f"read the {term} for me"


@pytest.mark.parametrize(
    ("word", "near"),
    [("datei", "date"), ("ordner", "order"), ("crear", "clear"), ("demain", "domain")],
)
def test_words_of_other_languages_are_no_misspellings(word: str, near: str) -> None:
    index = LexicalIndex()
    index.add("a", Fields(near))
    for text in (word, word.title(), f"{word} config.yaml", f"show {word} again"):
        assert corrected(index.freeze(), text) == text


def test_what_means_the_same_in_another_language_is_read_as_english() -> None:
    index = LexicalIndex()
    index.add("a", Fields("list_messages"))
    assert corrected(index.freeze(), "liste") == "list"


def test_what_tools_say_is_no_misspelling() -> None:
    index = LexicalIndex()
    for number in range(2):
        index.add(f"m{number}", Fields(f"flomo_{number}", description="Keeps a zettl"))
    for number in range(40):
        index.add(f"s{number}", Fields(f"flood_{number}", description="A zettle of floomo"))
    postings = index.freeze()
    assert corrected(postings, "flomo and zettl") == "flomo and zettl"
    # nor another form of it, which is only spelt as the tools spell it
    assert corrected(postings, "flomos and zettls") == "flomo and zettl"


def test_a_word_that_only_came_later_is_not_meant() -> None:
    index = LexicalIndex()
    index.add("a", Fields("alpha"))
    before = index.freeze()
    index.add("b", Fields("zorglub"))
    assert corrected(before, "zorglbu") == "zorglbu"
    assert corrected(index.freeze(), "zorglbu") == "zorglub"
    index.remove("b")
    assert corrected(index.freeze(), "zorglbu") == "zorglbu"


def test_a_misspelling_that_stands_in_a_description_yields_to_the_common_word() -> None:
    index = LexicalIndex()
    index.add("typo", Fields("finder", description="Serach for things"))
    for number in range(12):
        index.add(f"s{number}", Fields(f"find_{number}", description="Search for things"))
    assert corrected(index.freeze(), "serach") == "search"


def test_the_name_of_a_tool_is_no_misspelling_of_what_many_tools_say() -> None:
    index = LexicalIndex()
    for i in range(12):
        index.add(f"t{i}", Fields(f"tool{i}", description="Rates of the next events"))
    index.add("rdates", Fields("rdates", description="When figures come out"))
    index.add("other", Fields("other", description="All raates of it"))
    postings = index.freeze()
    assert corrected(postings, "rdates of next week") == "rdates of next week"
    assert corrected(postings, "raates of next week") == "rates of next week"


def test_which_words_stand_for_an_unknown_one_is_the_same_in_any_order() -> None:
    names = [f"paint{letter}" for letter in "bcfghkm"]  # all as near to the unknown word

    def found(order: list[str], common: str) -> list[str]:
        index = LexicalIndex()
        for name in order:
            index.add(name, Fields(name))
        index.add("also", Fields(f"other {common}"))
        postings = index.freeze()
        scores = postings.search("paintxyz").bm25()
        return sorted(key for key, score in zip(postings.keys, scores, strict=True) if score > 0)

    for order in (names, names[::-1], names[3:] + names[:3]):
        # the commoner first, of equals those that come first in the alphabet
        assert found(order, "painth") == ["also", "paintb", "paintc", "paintf", "painth"]
        assert found(order, "") == ["paintb", "paintc", "paintf", "paintg"]


def test_only_words_of_tools_that_may_be_found_are_meant() -> None:
    index = LexicalIndex()
    index.add("seen", Fields("scale", description="Scale an application"))
    index.add("hidden", Fields("deploy", description="Deploy to zorglub with vantro"))
    postings = index.freeze()
    assert corrected(postings, "zorglbu", [0]) == "zorglbu"
    assert corrected(postings, "zorglbu", [0, 1]) == "zorglub"
    assert corrected(postings, "aplication on zorglbu", [0]) == "application on zorglbu"
    # nor does a hidden tool's word, or its name, keep another from being put right
    index.add("also", Fields("scaale"))
    index.add("more", Fields("scaale_it"))
    assert corrected(index.freeze(), "scaale", [0]) == "scale"
    assert corrected(index.freeze(), "scaale") == "scaale"


def test_words_of_tools_that_are_gone_are_known_no_more() -> None:
    index = LexicalIndex()
    index.add("find", Fields("search", description="Search application files"))
    text = "serach aplicaton fiels zorglub"
    index.add("gone", Fields("zorglub"))
    assert corrected(index.freeze(), text) == "search application files zorglub"
    index.remove("gone")
    again = LexicalIndex()
    again.add("find", Fields("search", description="Search application files"))
    assert corrected(index.freeze(), text) == corrected(again.freeze(), text) == text


@pytest.mark.parametrize("wordy_first", [True, False])
def test_it_does_not_matter_which_tool_came_first(wordy_first: bool) -> None:
    index = LexicalIndex()
    long = " ".join([*(f"parameter{number}" for number in range(300)), "kubernetes"])
    tools = {"wordy": Fields("apply", params=long), "deploy": Fields("deploy", "kubernetes")}
    for key in tools if wordy_first else reversed(tools):
        index.add(key, tools[key])
    assert corrected(index.freeze(), "kuberntes") == "kubernetes"


@pytest.mark.parametrize("word", ["attendee", "workspaces", "cybersecurity", "spacex", "repot"])
def test_words_of_today_are_spelt_rightly(word: str) -> None:
    index = LexicalIndex()
    index.add("x", Fields("attended_workspace", description="Repo of cyberssecurity in space"))
    assert corrected(index.freeze(), f"a {word} for me") == f"a {word} for me"
