"""A query is searched in the words that tools' names and descriptions are embedded as."""

from __future__ import annotations

import unicodedata

import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.retrieval.indexes.exact import ExactIndex
from armory.retrieval.indexing.document import fields_of
from armory.retrieval.lexical.bm25 import LexicalIndex
from armory.retrieval.registry import make_embedder, make_rankers
from armory.retrieval.retriever import Retriever
from armory.retrieval.search.scope import scope_of
from armory.retrieval.snapshot import words_only
from tests.unit.retrieval.conftest import MakeTool


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("createIssue", "create issue"),
        ("call readHTTPStatus2 for Paris", "call read http status2 for Paris"),
        ("GitHub, iPhone, macOS and eBay", "GitHub, iPhone, macOS and eBay"),
        ("read_file", "read_file"),
        ("ReadFile, not OpenFile", "read file, not OpenFile"),  # a tool's name is no product
    ],
)
def test_names_of_products_stay_whole(asked: str, searched: str, tools: list[ToolRecord]) -> None:
    words = LexicalIndex()
    for tool in tools:
        words.add(tool.name, fields_of(tool))
    scope = scope_of(Query((asked,)), words_only(tools, words.freeze()), None)
    assert scope.texts[0].text == searched


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("Who is in? Answer in German.", "Who is in?"),
        ("Who is in?\nPlease answer with yes or no, thanks!", "Who is in?"),
        ("Sum 3 and 4. Explain your reasoning. Be concise.", "Sum 3 and 4."),
        ("Sum 3 and 4: just give me the final answer", "Sum 3 and 4:"),
        ("Sum 3 and 4. Let's think step by step.", "Sum 3 and 4."),
        ("Read the thread. Answer in #general.", "Read the thread. Answer in #general."),
        ("Read it. Answer with a thumbs up.", "Read it. Answer with a thumbs up."),
        ("Translate it. Answer in German to Bob", "Translate it. Answer in German to Bob"),
        ("Answer in German.", "Answer in German."),
        ("Think step by step.", "Think step by step."),
        ("Rethink step by step", "Rethink step by step"),
    ],
)
def test_the_manner_of_the_answer_is_not_searched_for(
    asked: str, searched: str, make_tool: MakeTool
) -> None:
    words = LexicalIndex()
    notes = make_tool("add_note", "Write a note that you think is useful")
    words.add(notes.name, fields_of(notes))
    scope = scope_of(Query((asked,)), words_only([notes], words.freeze()), None)
    assert scope.texts[0].text == searched


def test_who_asks_to_think_where_a_tool_thinks_is_heard(make_tool: MakeTool) -> None:
    words = LexicalIndex()
    thinker = make_tool("sequentialthinking", "Solves a problem", server="sequential-thinking")
    words.add(thinker.name, fields_of(thinker))
    asked = "Plan the move. Think step by step. Be brief."
    scope = scope_of(Query((asked,)), words_only([thinker], words.freeze()), None)
    assert scope.texts[0].text == "Plan the move. Think step by step."


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("Jot down: buy milk", "note down: buy milk"),
        ("jot this down; what I jotted yesterday", "note this down; what I noted yesterday"),
        ("read /tmp/jot.md and a.io/jot", "read /tmp/jot.md and a.io/jot"),
        ("jotform, jot_it, ajot", "jotform, jot_it, ajot"),
    ],
)
def test_what_no_tool_says_is_put_plainly(asked: str, searched: str, make_tool: MakeTool) -> None:
    words = LexicalIndex()
    notes, jotter = make_tool("add_note", "Write a note"), make_tool("jot", "Jots down a thought")
    words.add(notes.name, fields_of(notes))
    plain = scope_of(Query((asked,)), words_only([notes], words.freeze()), None)
    assert plain.texts[0].text == searched
    words.add(jotter.name, fields_of(jotter))
    own = scope_of(Query((asked,)), words_only([notes, jotter], words.freeze()), None)
    assert own.texts[0].text == asked  # in this catalog a tool says so


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("mail it to ann@slack.com", "mail it to ann@example.com"),
        ("<a.b+c@mail.github.co.uk>, b@x.io: hi", "<a.b+c@example.com>, b@example.com: hi"),
        ("mails from no-reply@github.com.", "mails from no-reply@example.com."),
        ("clone git@github.com:acme/api.git", "clone git@github.com:acme/api.git"),
        ("ask @slack.com, a@slack or https://x@slack.com/y", ""),
        ("a@" * 4_000, ""),
        ("a@" + "b." * 3_000, "a@example.com."),
    ],
)
def test_a_mail_address_names_no_server(asked: str, searched: str, make_tool: MakeTool) -> None:
    words, tool = LexicalIndex(), make_tool("post", "Post a message")
    words.add(tool.name, fields_of(tool))
    scope = scope_of(Query((asked,)), words_only([tool], words.freeze()), None)
    assert scope.texts[0].text == (searched or asked)


def test_letters_and_their_accents_are_read_together(make_tool: MakeTool) -> None:
    """Apart, as macOS has them in file names, a window begins like a fence."""
    words = LexicalIndex()
    builder = make_tool("build_fence", "Build a fence")
    words.add(builder.name, fields_of(builder))
    apart = unicodedata.normalize("NFD", "fenêtre")
    scope = scope_of(Query((apart,)), words_only([builder], words.freeze()), None)
    assert scope.texts[0].text == "fenêtre"


@pytest.mark.anyio
async def test_a_tool_is_found_by_its_name_in_another_spelling(make_tool: MakeTool) -> None:
    described = {
        "create_issue": "Open a new issue in a repository",
        "create_invoice": "Create an invoice for a customer",
        "get_forecast": "Weather forecast of a place",
        "navigate": "Go to a page",
        "sendSMS": "Texts somebody",
        "calculate_roi": "What an investment brings",
    }
    tools = [make_tool(name, text) for name, text in described.items()]
    embedder = make_embedder("embedded")
    async with Retriever(embedder, ExactIndex(), make_rankers()) as retriever:
        await retriever.index(tools)
        for asked, wanted in (
            ("createIssue", "create_issue"),
            ("getForecast", "get_forecast"),
            ("sendSMS", "sendSMS"),
            ("calculateROI", "calculate_roi"),
        ):
            found = await retriever.search(Query((asked,)))
            assert [m.tool.original_name for m in found.matches][:1] == [wanted]


def test_names_that_end_in_capitals_are_taken_apart_where_a_tool_has_them(
    make_tool: MakeTool,
) -> None:
    words = LexicalIndex()
    tools = [make_tool("sendSMS", "Texts somebody"), make_tool("get_user_id", "Who it is")]
    for tool in tools:
        words.add(tool.name, fields_of(tool))
    asked = "sendSMS on macOS to getUserID, or openHAB"
    scope = scope_of(Query((asked,)), words_only(tools, words.freeze()), None)
    assert scope.texts[0].text == "send sms on macOS to get user id, or openHAB"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "asked",
    ["git_commit", "git commit", "gitCommit", "git__git_commit", "git.git_commit", "GIT_COMMIT"],
)
async def test_a_tool_whose_name_is_asked_for_comes_first(asked: str, make_tool: MakeTool) -> None:
    described = {
        "git_commit": "Records changes to the repository",
        "git_show": "Shows the contents of a commit",
        "git_log": "Shows the commit logs",
        "git_diff_staged": "Shows changes that are staged for commit",
        "git_add": "Adds file contents to the staging area",
        "git_reset": "Unstages all staged changes",
    }
    retriever = Retriever(make_embedder(), ExactIndex(), make_rankers())
    async with retriever:
        await retriever.index([make_tool(*one, server="git") for one in described.items()])
        found = await retriever.search(Query((asked,)))
        assert found.matches[0].tool.original_name == "git_commit"


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("what did I miss in #ops?", "what did I miss in channel #ops?"),
        ("#dev-team: standup in 5", "channel #dev-team: standup in 5"),
        ("Tell #general, then #random", "Tell channel #general, then channel #random"),
        ("say hi in the #welcome channel", "say hi in the #welcome channel"),
        ("say hi in channel #welcome", "say hi in channel #welcome"),
        ("close #31, it is #ff0000 or #abc", "close #31, it is #ff0000 or #abc"),
        ("a note tagged #ideas", "a note tagged #ideas"),
        ("open a.io/b#top and C#x", "open a.io/b#top and C#x"),
        ("# Release notes", "# Release notes"),
    ],
)
def test_a_channel_is_called_so(asked: str, searched: str, make_tool: MakeTool) -> None:
    words = LexicalIndex()
    chat = make_tool("post_message", "Post a message to a channel")
    pages = make_tool("click", "Click what a selector finds")
    words.add(chat.name, fields_of(chat))
    scope = scope_of(Query((asked,)), words_only([chat], words.freeze()), None)
    assert scope.texts[0].text == searched
    alone = LexicalIndex()
    alone.add(pages.name, fields_of(pages))
    scope = scope_of(Query((asked,)), words_only([pages], alone.freeze()), None)
    assert scope.texts[0].text == asked


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("what did I miss in #ops?", "what did I miss in channel #ops?"),
        ("Tell #general, then #random", "Tell channel #general, then #random"),
        ("scroll to #footer", "scroll to #footer"),
        ("what is trending in #ai", "what is trending in #ai"),
    ],
)
def test_a_channel_is_told_from_a_selector_and_a_hashtag(
    asked: str, searched: str, make_tool: MakeTool
) -> None:
    chat = make_tool("post_message", "Post a message to a channel")
    pages = make_tool("click", "Click what a selector finds")
    tags = make_tool("trends", "Which hashtags are popular")
    for other in (pages, tags):
        assert prepared_for(asked, chat, other) == searched


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("#general: standup in 5", "channel #general: standup in 5"),
        ("#ops any news on the outage?", "channel #ops any news on the outage?"),
        ("#submit is no button", "#submit is no button"),
    ],
)
def test_beside_selectors_alone_a_channel_may_begin_a_text(
    asked: str, searched: str, make_tool: MakeTool
) -> None:
    chat = make_tool("post_message", "Post a message to a channel")
    assert prepared_for(asked, chat, make_tool("click", "Click what a selector finds")) == searched
    assert prepared_for(asked, chat, make_tool("trends", "Which hashtags are popular")) == asked


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("how do I get to the airport?", "get directions to the airport?"),
        ("How can we best get from Ulm to Bonn", "get directions from Ulm to Bonn"),
        ("how do i get home by bike", "get directions home by bike"),
        ("how do I get to know my neighbours", "how do I get to know my neighbours"),
        ("how do I get to the settings page", "how do I get to the settings page"),
        ("how do I get a refund", "how do I get a refund"),
    ],
)
def test_how_to_get_somewhere_wants_directions(
    asked: str, searched: str, make_tool: MakeTool
) -> None:
    maps = make_tool("route", "Get directions between two places, by mode of travel")
    assert prepared_for(asked, maps) == searched
    assert prepared_for(asked, make_tool("chat", "Send direct messages")) == asked


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("what's PROJ-123 about", "what's jira issue PROJ-123 about"),
        ("link AB-1 and AB-22", "link jira issue AB-1 and jira issue AB-22"),
        ("Jira: close OPS-7", "Jira: close issue OPS-7"),
        ("close issue OPS-7", "close jira issue OPS-7"),
        ("comment on Epic OPS-7", "comment on jira Epic OPS-7"),
        ("the project with the ID 'DA-12'", "the project with the ID 'DA-12'"),
        ("read it as UTF-8, with GPT-4", "read it as UTF-8, with GPT-4"),
        ("open docs/AB-12.md or X-1", "open docs/AB-12.md or X-1"),
    ],
)
def test_the_key_of_an_issue_is_called_so(asked: str, searched: str, make_tool: MakeTool) -> None:
    jira = make_tool("jira_get_issue", "Reads one", server="atlassian")
    linear = make_tool("get_issue", "Reads one", server="linear")
    hub = make_tool("get_issue", "Reads one", server="github")
    assert prepared_for(asked, jira) == searched
    assert prepared_for(asked, jira, linear) == searched.replace("jira ", "")
    assert prepared_for(asked, hub) == asked


def prepared_for(asked: str, *tools: ToolRecord) -> str:
    """A text as it is searched for among these tools."""
    words = LexicalIndex()
    for tool in tools:
        words.add(tool.name, fields_of(tool))
    return scope_of(Query((asked,)), words_only(list(tools), words.freeze()), None).texts[0].text


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("not in GitHub, search the wiki", "search the wiki"),
        ("open a ticket, but not in github", "open a ticket"),
        ("Use the wiki instead of GitHub.", "Use the wiki"),
        ("don't mail him, just ping him", "ping him"),
        ("Show what it would store. Please do not save it!", "Show what it would store"),
        ("list the PRs, but don't merge any", "list the PRs"),
        ("not in time, sorry", "not in time, sorry"),
        ("one instead of two", "one instead of two"),
        ("tools that don't share data", "tools that don't share data"),
        ("they are old, they don't show it", "they are old, they don't show it"),
        ("don't forget to mail Bob", "don't forget to mail Bob"),
        ("don't send it", "don't send it"),
        ("not in GitHub", "not in GitHub"),
    ],
)
def test_what_is_not_wanted_is_not_searched_for(
    asked: str, searched: str, make_tool: MakeTool
) -> None:
    hub = make_tool("search_code", "Searches code", server="github")
    clock = make_tool("now", "Tells the hour", server="time")
    two = make_tool("pair", "Makes pairs", server="two")
    assert prepared_for(asked, hub, clock, two) == searched


@pytest.mark.parametrize(
    ("asked", "searched"),
    [
        ("ls", "list directory"),
        ("ls -la ~/Downloads", "list directory ~/Downloads"),
        ("cat .env.example", "read file .env.example"),
        ('grep -rn "todo list" src', 'search files for "todo list" src'),
        ("cp a.txt b.txt", "copy file a.txt b.txt"),
        ("pwd", "show current directory"),
        ("cat pictures", "cat pictures"),
        ("touch the screen", "touch the screen"),
        ("ls my files please", "ls my files please"),
    ],
)
def test_a_command_is_put_plainly(asked: str, searched: str, make_tool: MakeTool) -> None:
    files = make_tool("list_directory", "List directory content, read or copy a file", "files")
    assert prepared_for(asked, files) == searched


def test_the_tool_that_is_called_by_a_command_is_found(make_tool: MakeTool) -> None:
    assert prepared_for("ls src", make_tool("ls", "Shows files")) == "list directory (ls src)"


def test_what_nobody_sees_parts_no_words(make_tool: MakeTool) -> None:
    words = LexicalIndex()
    notes = make_tool("add_note", "Write a note")
    words.add(notes.name, fields_of(notes))
    asked = "\ufeffAdd a re\u00admind\u00ader and\u200b send \u2068the note\u2069"
    scope = scope_of(Query((asked,)), words_only([notes], words.freeze()), None)
    assert [part.text for part in scope.texts] == [
        "Add a reminder and send the note",
        "Add a reminder",
        "send the note",
    ]
