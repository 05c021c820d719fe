"""Which texts name a file that is to be written, and which ask to remember, recall or forget."""

from __future__ import annotations

import pytest

from armory.retrieval.lexical.implied import (
    CHANGES,
    FORGET,
    LOOK_UP,
    RECALL,
    REMEMBER,
    SEND,
    WEB,
    WRITE_FILE,
    implied,
)


@pytest.mark.parametrize(
    "text",
    [
        "Compare both packages and put a table into /tmp/compare.md.",
        "the weather of the week, saved as report.md, please",
        "Summarize the talk and write it to 'C:\\notes\\talk.txt'",
        "Create a login page in src/pages/login.tsx",
        "Read /tmp/a.csv, then save the sums to ./sums.csv",
        "Speichere das Ergebnis als notizen.md",
        "Enregistre le résumé dans /tmp/resume.md",
        "Guarda el resumen en /tmp/resumen.txt",
        "Put the report at /tmp/report.md",
        "a report at /tmp/report.md",
        "把总结保存到/root/summary.md",
        "write a hello world to hello.py",
        "save this as app.js",
    ],
)
def test_a_file_to_be_written(text: str) -> None:
    assert implied(text) == (WRITE_FILE,)


@pytest.mark.parametrize(
    "text",
    [
        "read /tmp/a.txt",
        "save my work",
        "Write a Next.js page",
        "Save the picture at /tmp/a.png",
        "save https://example.com/a.html to the reading list",
        "Our wishes are written down in wishes.md, where do we start?",
        "What does the report /tmp/a.md say?",
        "Create the file and open /tmp/a.md",
        "email the report at /tmp/report.md to Bob",
        "Translate this document in /tmp/a.txt",
        "write a test in app.py",
        "export my page to next.js",
        "",
    ],
)
def test_nothing_to_be_written(text: str) -> None:
    assert implied(text) == ()


def test_only_the_beginning_of_a_long_text_is_looked_at() -> None:
    assert implied("word " * 2_000 + "saved at /tmp/a.md") == ()


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("remember that my wife's birthday is on June 3rd", REMEMBER),
        ("Remember: the gate code is 4711", REMEMBER),
        ("Can you remember I\u2019m vegetarian?", REMEMBER),
        ("By the way, I'm allergic to nuts. Don\u2019t forget that.", REMEMBER),
        ("I am allergic to nuts, keep that in mind", REMEMBER),
        ("Lunch is at noon; also keep in mind that Tom is away", REMEMBER),
        ("From now on, please memorize this", REMEMBER),
        ("Alice works at Initech now, note that down.", REMEMBER),
        ("Merk dir, dass ich kein Fleisch esse", REMEMBER),
        ("Recuerda que soy alérgico", REMEMBER),
        ("请记住我的名字", REMEMBER),
        ("do you remember what my dog is called?", RECALL),
        ("Hi! What do you know about me?", RECALL),
        ("who did I say was my manager?", RECALL),
        ("Where did I say I parked", RECALL),
        ("what did I tell you about Bob", RECALL),
        ("Have I already mentioned my shoe size?", RECALL),
        ("Please forget what I said of Bob", FORGET),
        ("forget everything about my ex", FORGET),
    ],
)
def test_what_is_to_be_remembered(text: str, act: str) -> None:
    assert implied(text) == (act,)


@pytest.mark.parametrize(
    "text",
    [
        "remember to call Bob",
        "I remember that our docs mention a flag",
        "What do you know about whales?",
        "What do you know about US elections?",
        "note that the file is large",
        "what did I say to Bob?",
        "write this down as a list",
        "a song to remember",
        "forget it",
        "What did I tell Bob?",
        "an unforgettable day",
        "remembering my holidays",
    ],
)
def test_nothing_to_be_remembered(text: str) -> None:
    assert implied(text) == ()


def test_what_is_remembered_may_be_written_as_well() -> None:
    assert implied("Remember that, and save it as notes.md") == (REMEMBER, WRITE_FILE)


@pytest.mark.parametrize(
    "text",
    [
        "latest news on openai",
        "Breaking news from Peru?",
        "who is currently president of Peru",
        "What\u2019s the newest stable release of Node right now?",
        "which films came out this week",
        "who won the world cup 2026",
    ],
)
def test_what_is_new(text: str) -> None:
    assert implied(text) == (LOOK_UP,)


@pytest.mark.parametrize(
    "text",
    [
        "how are you today?",
        "What did I do yesterday?",
        "is it raining now",
        "who wrote Hamlet",
        "create an issue: the latest build fails",
        "now what",
        "who is currently president of " + "Peru " * 60,
    ],
)
def test_what_is_not_new_or_personal(text: str) -> None:
    assert implied(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "let the team know the deploy is done",
        "Merge PR 12 and let Tom know",
        "inform the customer that it is on its way",
        "please tell my boss I\u2019m sick",
        "ping the on-call about the outage",
        "Can you reply to Sarah saying that I'll be there?",
        "write back to Tom that the price is fine",
    ],
)
def test_somebody_is_to_be_told(text: str) -> None:
    assert implied(text) == (SEND,)


@pytest.mark.parametrize(
    "text",
    [
        "tell me a joke",
        "let me know when it is done",
        "tell us what a monad is",
        "ping 8.8.8.8",
        "ping the server",
        "notify Bob by mail",
        "tell the team on Slack",
        "tell #general that I'm late",
        "how do I tell a crow from a raven",
        "write to the disk",
        "write an essay that shines",
    ],
)
def test_nobody_else_is_to_be_told_or_it_is_said_how(text: str) -> None:
    assert implied(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "who touched the parser last week?",
        "And who wrote that line?",
        "who last edited main.py",
        "who has broken the tests, I mean who broke the build?",
        "who recently changed the login function",
    ],
)
def test_who_changed_a_file_is_asked(text: str) -> None:
    assert implied(text) == (CHANGES,)


@pytest.mark.parametrize(
    "text",
    [
        "who wrote Hamlet",
        "who broke the world record",
        "who changed my life",
        "who touched my lunch",
        "who added Bob to the guest list",
    ],
)
def test_who_did_something_else_is_asked(text: str) -> None:
    assert CHANGES not in implied(text)


@pytest.mark.parametrize(
    "text",
    [
        "search the web for the newest Kubernetes CVEs",
        "Look it up online, please",
        "Find out who runs Stripe on the web",
        "please google the Notion pricing",
        "list the pods, then google \u201cOOMKilled\u201d",
    ],
)
def test_the_web_is_to_be_searched(text: str) -> None:
    assert implied(text) == (WEB,)


@pytest.mark.parametrize(
    "text",
    [
        "search the web page for a button",
        "open Google Calendar and google_drive",
        "quotes for Apple, Tesla and Google (GOOGL)",
        "what is a web server",
        "who is online?",
    ],
)
def test_the_web_is_not_to_be_searched(text: str) -> None:
    assert implied(text) == ()
