"""What of a text is said to whoever listens, and is not searched for."""

from __future__ import annotations

import pytest

from armory.retrieval.lexical.bm25 import Fields, LexicalIndex
from armory.retrieval.lexical.known_words import KnownWords
from armory.retrieval.lexical.wording import as_tools_say, unaddressed, unfilled


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


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("my open tickets", "my open issues"),
        ("Close that ticket.", "Close that issue."),
        ("Tickets of Ann", "issues of Ann"),
        ("buy two train tickets", "buy two train tickets"),
        ("read ticket.md and /ticket/4", "read ticket.md and /ticket/4"),
        ("a ticketing system", "a ticketing system"),
    ],
)
def test_a_ticket_is_an_issue_where_tools_know_no_other(text: str, wanted: str) -> None:
    tracker = Fields("create_issue", "tracker", description="Create an issue of a team")
    desk = Fields("find", "desk", description="Find a support ticket")
    errors = Fields("analyze", "errors", description="Analyze an issue")
    assert as_tools_say(text, words(tracker)) == wanted
    assert as_tools_say(text, words(tracker, desk)) == text
    assert as_tools_say(text, words(errors)) == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("open a PR", "open a merge request"),
        ("my PRs and Ann's pull requests", "my merge requests and Ann's merge requests"),
        ("close MR !12", "close merge request !12"),
        ("ask Mr Smith for approval", "ask Mr Smith for approval"),
        ("read docs/PR.md and pr-bot", "read docs/PR.md and pr-bot"),
    ],
)
def test_a_pull_request_is_a_merge_request_where_tools_know_no_other(
    text: str, wanted: str
) -> None:
    gitlab = Fields("create_merge_request", "gitlab")
    github = Fields("create_pull_request", "github")
    assert as_tools_say(text, words(gitlab)) == wanted
    assert as_tools_say(text, words(github, gitlab)) == text
    assert as_tools_say(text, words(Fields("send_request"), Fields("merge_pdfs"))) == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("what time is it in Tokyo?", "get the current time in Tokyo?"),
        ("What's the time in Rome", "get the current time in Rome"),
        ("what time is it", "what time is it"),  # perhaps the name of a tool
        ("if it is 9 here, what time is it in Rome", "if it is 9 here, what time is it in Rome"),
        ("what time is the meeting in Rome", "what time is the meeting in Rome"),
    ],
)
def test_who_asks_what_time_it_is_wants_the_current_one(text: str, wanted: str) -> None:
    clock = [Fields("get_current_time", "time"), Fields("convert_time", "time")]
    assert as_tools_say(text, words(*clock)) == wanted
    assert as_tools_say(text, words(clock[1])) == text


def words(*tools: Fields) -> KnownWords:
    index = LexicalIndex()
    for number, tool in enumerate(tools):
        index.add(str(number), tool)
    return KnownWords(index.freeze())
