"""What of a text is said to whoever listens, and is not searched for."""

from __future__ import annotations

import pytest

from armory.retrieval.lexical.wording import unaddressed, unfilled


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Hi! Delete note 7", "Delete note 7"),
        ("hey claude, what is on my calendar?", "what is on my calendar?"),
        ("Hello there! Good morning. Please send it", "Please send it"),
        ("OK so let's book a table", "let's book a table"),
        ("hi can you play some jazz", "can you play some jazz"),
        ("Actually, move it to Monday", "move it to Monday"),
        ("  um, well... the weather in Rome\n", "the weather in Rome"),
        ("Great! Sorry, quick question: is it up?", "is it up?"),
        ("great circle distance", "great circle distance"),
        ("Thanks for the help! Delete note 7", "Delete note 7"),
        ("sorry for the back and forth. one more: delete note 7", "delete note 7"),
        ("perfect. One last thing: delete note 7", "delete note 7"),
        ("now that we have the design, export it", "export it"),
        ("while you're at it, delete note 7", "delete note 7"),
        ("different question: who is on call?", "who is on call?"),
        ("Thanks for all", "Thanks for all"),
        ("new York, weather today", "new York, weather today"),
        ("one more time: play it", "one more time: play it"),
        ("hey spotify, play some jazz", "hey spotify, play some jazz"),  # perhaps a server
        ("hey jude lyrics", "hey jude lyrics"),
        ("hello world program", "hello world program"),
        ("so-called friends of Bob", "so-called friends of Bob"),
        ("ok.txt is what I need", "ok.txt is what I need"),
        ("Hi,show me the log", "show me the log"),
        ("hello - is it up?", "is it up?"),
        ("I have a quick question: is it up?", "is it up?"),
        ("Question: how high is it?", "how high is it?"),
        ("question bank for maths", "question bank for maths"),
        ("hi there", "hi there"),
        ("ok, thanks", "ok, thanks"),
        ("highlight the row", "highlight the row"),
        ("", ""),
    ],
)
def test_a_salutation_is_left_out(text: str, wanted: str) -> None:
    assert unaddressed(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("add uh milk, um, and bread", "add milk and bread"),
        ("pull up the, uh, last invoice erm please", "pull up the last invoice please"),
        ("um add it to uhh my list", "add it to my list"),
        ("convert 5 um to mm", "convert 5 um to mm"),
        ('find "uh oh" by uh-huh', 'find "uh oh" by uh-huh'),
        ("delete the document number", "delete the document number"),
        ("um", "um"),
        ("uh what", "uh what"),
    ],
)
def test_what_is_said_while_one_thinks_is_left_out(text: str, wanted: str) -> None:
    assert unfilled(text) == wanted
