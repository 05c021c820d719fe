"""Wishes that no tool can be meant for, since none has a word of that kind."""

from __future__ import annotations

import pytest

from armory.retrieval.lexical.bm25 import Fields, LexicalIndex
from armory.retrieval.lexical.elsewhere import is_elsewhere
from armory.retrieval.lexical.known_words import KnownWords

OFFICE = (
    Fields("send_message", "mail", description="Send a message about an order or a play"),
    Fields("convert_to_pdf", "word", description="Convert a document, at any rate"),
    Fields("create_note", "notes", description="Create a note and branch off from it"),
)
LIFE = (
    Fields("find_flights", "travel", description="Find offers of airlines"),
    Fields("convert", "money", description="Convert an amount into another currency"),
    Fields("create_order", "kitchen", description="Send a cart to the restaurant"),
    Fields("start", "player", description="Start a playlist in the living room"),
    Fields("call_ride", "cars", description="Send a car"),
    Fields("run_command", "shell", description="Run it and return what it prints"),
    Fields("generate_image", "art", description="From a prompt"),
    Fields("translate", "words", description="From one language into another"),
    Fields("pay", "bank", description="Pay somebody"),
    Fields("set_timer", "clock", description="Start a timer"),
    Fields("get_forecast", "sky", description="Tell how the weather will be"),
    Fields("get_quote", "exchange", description="What stocks cost"),
    Fields("find_meals", "cook", description="By ingredients"),
    Fields("execute", "smart", description="Operate an appliance"),
    Fields("math", "units", description="Convert units"),
)
WISHES = (
    "Book a flight to Rome",
    "find me cheap flights to Madrid",
    "convert 30 USD to EUR",
    "how much are 50 dollars in yen",
    "what is 5 miles in km",
    "order a large pizza for tonight",
    "play some jazz",
    "can you play the new album",
    "call me a taxi",
    "set an alarm for 7",
    "draw me a picture of a fox",
    "translate this to French",
    "transfer 200 euros to my landlord",
    "squash the last three commits",
    "git push",
    "merge the PR",
    "drop the users table",
    "scale the api to 4 replicas",
    "restart the nginx container",
    "the build is red again",
    "restart the pipeline",
    "what's the weather in Rome",
    "weather tomorrow",
    "stock price of Apple",
    "a recipe for pancakes",
    "turn off the lights in the kitchen",
    "switch the bedroom lamp on",
)


def test_mail_is_sent_by_tools_that_know_of_it() -> None:
    wish = "send Bob an email that I am late"
    assert not is_elsewhere(wish, words(*OFFICE))
    assert is_elsewhere(wish, words(*OFFICE[1:]))


@pytest.mark.parametrize(
    "text",
    [
        "create a note: the build is broken",
        "the build is failing, create a note",
        "search notes about git rebase",
        "create a note to order pizza for Friday",
        "find where we drop the users table",
        "add a task to book a table for two",
        "comment that the deploy to staging failed in a note",
        "write tests for the email module",
    ],
)
def test_what_is_part_of_another_wish_counts_for_nothing(text: str) -> None:
    assert not is_elsewhere(text, words(*OFFICE))


@pytest.mark.parametrize(
    "text",
    [
        "can you suggest a recipe for vegan curry",
        "I need to find the latest price of bitcoin",
        "I want to find a restaurant where I can book a table for two",
        "find me a one-way economy class flight from Oslo to Rome",
    ],
)
def test_words_that_go_with_every_wish_make_it_no_part_of_another(text: str) -> None:
    named = Fields("find_current", "need", description="Suggest what we want")
    assert is_elsewhere(text, words(*OFFICE, named))


def words(*tools: Fields) -> KnownWords:
    index = LexicalIndex()
    for number, tool in enumerate(tools):
        index.add(str(number), tool)
    return KnownWords(index.freeze())


@pytest.mark.parametrize("wish", WISHES)
def test_it_is_where_no_tool_is_of_the_kind(wish: str) -> None:
    assert is_elsewhere(wish, words(*OFFICE))
    assert not is_elsewhere(wish, words(*OFFICE, *LIFE))


@pytest.mark.parametrize(
    "text",
    [
        "convert the report to pdf",
        "order the notes by date",
        "order the food items by price",
        "what is the price of gold plan members pay",
        "play the video",
        "change the due date to Friday",
        "send the 3 pounds of notes about flights",
        "make a note of it",
        "create a picture frame note",
        "open the present",
        "create a note called weather-bot",
        "tell me about space weather",
        "turn on the light mode",
        "how does git work?",
        "search my mail for the flight confirmation",
        "get the flight number from my calendar",
        "find the hotel confirmation email",
        "search slack for flights",
        "find notes about flights",
        "find the flight search bug in Jira",
        "search the hotels table for cities without a zip code",
        "find in-flight requests that are slow",
        "look for flights.csv",
        "look for hotels/index.ts",
        "convert 5 miles to km in the tests",
        "translate the README to French",
        "set the timer of the cron job to 5 minutes",
        "what weather endpoint do we call",
        "find recipes for chef in the repo",
        "book a flight to Rome " + "and more " * 20,
    ],
)
def test_it_is_not(text: str) -> None:
    assert not is_elsewhere(text, words(*OFFICE))
