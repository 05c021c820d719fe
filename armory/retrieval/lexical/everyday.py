"""Wishes of every day that no tool is described by: "turn off the lights in the kitchen", "what did
they say in #ops?", "has Ann answered my mail?", "the build is red again", "remind me to call mum".

Owns: recognising them in English, and what tools for them are said to do. Never imports anything
of Armory.

They read like talk, and share hardly a word with "Call a service of Home Assistant", "Read the
messages of a channel", "Search emails" or "List workflow runs". Words may stand in any order, since
those of other languages were put into English one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

SWITCH = "turn devices and lights on or off"
CHANNEL = "read the messages of a channel"
MAILBOX = "search emails"
BUILD = "list builds and workflow runs"
ERRORS = "search for errors"
REMIND = "create a reminder"
#: A tool does it that has all words of one of these.
DONE_BY = {
    SWITCH: ("turn light", "switch light", "control light", "control device", "switch device"),
    CHANNEL: ("read message channel", "list message channel", "channel history"),
    MAILBOX: ("search email", "search mail", "list email", "find email", "search gmail"),
    BUILD: ("list build", "build status", "get build", "workflow run", "list pipeline"),
    REMIND: (
        *("create reminder", "add reminder", "set reminder", "schedule reminder", "add task"),
        *("create task", "new task", "add todo", "create todo", "create event", "add event"),
    ),
    ERRORS: ("search error", "find error", "list error", "error log", "search issue event"),
}
_CHARS = 300
"""Of a text that are looked at; longer ones say more than that."""
_THING = (
    r"\b(?:lights?(?![-\w])|lamps?|bulbs?|fans?(?! (?:art|club|page|site|website|fiction))"
    r"|heat(?:ing|ers?)|radiators?|thermostats?|tv|television|telly|ac|a/c"
    r"|air ?con(?:dition(?:er|ers|ing))?|blinds?|shutters?|curtains?|awnings?|sprinklers?|vacuum"
    r"|dishwasher|washing machine|coffee (?:maker|machine)|kettle|oven|humidifier|plugs?"
    r"|front door|garage(?: door)?)\b"
)
_QUESTION = re.compile(
    r"\W*+(?:why|how|what|who|whose|when|where|did|do|does|is|are|has|have|if)\b"
)
_BIDDING = re.compile(r"\W*+(?:i|please|can|could|send|write|reply|respond|answer|create)\b")


class _Wish(NamedTuple):
    """A text is one that has something of each of these, and does not begin with `not_begun`."""

    act: str
    hints: Sequence[str]
    has: Sequence[re.Pattern[str]]
    not_begun: re.Pattern[str]


_WISHES = (
    _Wish(
        SWITCH,
        (
            *(" on", " off", " up", " down", "on ", "off "),
            *("set ", "dim", "lock", "open", "close", "st"),
        ),
        (
            re.compile(_THING),
            re.compile(
                r"\b(?:turn|switch|put|make)\b[^.!?]{0,60}\b(?:on|off|up|down)\b"
                rf"|\bset (?:the |my |our )?[\w ]{{0,30}}{_THING}[^.!?]{{0,40}}\bto\b"
                r"|\b(?:dim|brighten|lock|unlock|open|close|start|stop|lower|raise)\b"
            ),
        ),
        _QUESTION,
    ),
    _Wish(
        CHANNEL,
        ("#", "channel"),
        (
            re.compile(r"#[a-z]|\bchannel\b"),
            re.compile(r"\b(?:what|anyone|anybody|anything|somebody|someone|did|has|have|catch)\b"),
            re.compile(
                r"\b(?:say|said|says|tell|told|talk(?:ed|ing)?|wr(?:ite|ote|itten)|post(?:ed)?"
                r"|discuss(?:ed)?|happen(?:ed)?|miss(?:ed)?|going on|catch)\b"
            ),
        ),
        _BIDDING,
    ),
    _Wish(
        MAILBOX,
        ("mail", "inbox"),
        (
            re.compile(r"\b(?:e-?mails?|mails?|inbox)\b"),
            re.compile(r"\b(?:did|has|have|hasn't|haven't|any (?:news|answer|reply|word))\b"),
            re.compile(
                r"\b(?:repl(?:y|ied)|answer(?:ed)?|respon(?:d|ded|se)|wr(?:ite|ote|itten) back"
                r"|get|received?|news|word)\b"
            ),
            re.compile(r"\b(?:my|i|me|our|us)\b"),
        ),
        _BIDDING,
    ),
    _Wish(
        BUILD,
        ("build", "pipeline", "ci ", "tests"),
        (
            re.compile(
                r"\b(?:build|pipeline|ci|tests)\b.{0,30}\b(?:is|are|was|were|went|has|keeps?)\b"
                r".{0,30}\b(?:red|broken|failing|failed|fails?|stuck)\b"
            ),
        ),
        _BIDDING,
    ),
    _Wish(
        ERRORS,
        (" error", "exception", "crash", "broken", " down", " 50", "timeout"),
        (
            re.compile(
                r"\b(?:throw(?:s|ing)?|returns?|returning|gets?|getting|gives?|shows?|sees?)\b"
                r".{0,30}\b(?:errors?|exceptions?|50\d|timeouts?)\b"
                r"|\b(?:is|are|keeps?)\b.{0,20}\b(?:down|broken|crash(?:es|ing)?)\b"
            ),
            re.compile(
                r"\b(?:app|api|site|website|service|server|backend|frontend|checkout|login|prod"
                r"|production|staging|users|customers|job|worker|endpoint|database)\b"
            ),
        ),
        _QUESTION,
    ),
    _Wish(
        REMIND,
        ("remind", "let me forget", "let us forget"),
        (
            re.compile(  # "by SMS" finds what sends some
                r"\A(?!.*\bsms\b|.*\b(?:by|via|through|send|sending) (?:\w{1,20} ){0,2}"
                r"(?:texts?|e-?mails?|mails?|slack|whatsapp|messages?)\b)"
            ),
            re.compile(
                r"\bremind (?:me|us)\b(?!:| (?:again |please )?(?:what|who|how|why|where|which"
                r"|whether|if|of)\b| when (?:[^\s.?!,;]{1,30} ){1,5}(?:is|was|are|were)\W*\Z)"
                r"|\b(?:remind|set) reminder\b"
                r"|\A\W*+(?:me )?remind (?:of|about|to|today|tomorrow)\b"
                r"|\b(?:don't|do not|never) let (?:me|us) forget\b(?! (?:this|that)\b)"
            ),
        ),
        re.compile(r"\W*+(?:why|how|what|who|when|where|did|does|has|have)\b"),
    ),
)


def everyday(plain: str) -> tuple[str, ...]:
    """What a text asks for in other words.

    Args:
        plain: in lower case, with plain apostrophes.
    """
    if len(plain) > _CHARS:
        return ()
    return tuple(wish.act for wish in _WISHES if _is(wish, plain))


def _is(wish: _Wish, plain: str) -> bool:
    if not any(hint in plain for hint in wish.hints) or wish.not_begun.match(plain):
        return False
    return all(part.search(plain) for part in wish.has)
