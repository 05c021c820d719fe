"""A caller's text without what is said to whoever listens, in words that tools are described in.

Owns: which salutations and which wishes for the answer's manner are left out, which words are put
plainly, what of a mail address counts, what is a channel.
Never imports embedders, indexes or rankers.
"""

from __future__ import annotations

import re

from armory.retrieval.lexical.intents import VERB
from armory.retrieval.lexical.known_words import KnownWords

_PAUSE = r"\s*+(?:[,!]|[.:;\u2013\u2026-](?=[\s.]))++\s*+"
#: "Hey Claude," says nothing of what is wanted, and makes a wish look like talk. Other names stay,
#: which may be those of servers; so does what no comma, request or question follows: "hello world".
_SALUTATION = re.compile(
    r"(?:hi|hey|hello|hallo|hiya|greetings|good (?:morning|afternoon|evening|day)|ok|okay|alright"
    r"|so|well|um++|uh++|hm++|oh|actually|anyway)\b"
    r"(?: (?:there|again|all|everyone|everybody|guys|folks|team|friend|buddy|mate|bot|chatbot"
    r"|assistant|ai|agent|claude|chatgpt|gpt|gemini|copilot)\b)*+"
    rf"(?:{_PAUSE}"
    r"|\s++(?=(?:i|i'm|i'd|i've|can|could|would|will|please|what|what's|how|where|where's|when|who"
    r"|who's|which|is|are|do|does|did|let|lets|let's|need|want|my|so"
    rf"|{VERB})\b))"
    r"|(?:great|sorry|excuse me|by the way|btw|(?:i have |another |one |a |quick )*+question)"
    rf"{_PAUSE}",
    re.IGNORECASE,
)
_SALUTATIONS = 4
_LANGUAGES = (
    "english|german|french|spanish|italian|portuguese|dutch|polish|hungarian|russian|chinese"
    "|japanese|korean|turkish|arabic|hindi|swedish"
)
_SHAPES = (
    rf"{_LANGUAGES}|json|yaml|markdown|prose|bullet points|detail"
    r"|(?:plain|full|short|simple) (?:text|words|terms|sentences|english)"
    r"|(?:a|one|two|three|\d{1,3})(?: (?:single|short|few))?+ (?:word|sentence|line|paragraph)s?"
)
#: Of how the answer is to be: that says nothing of which tool is wanted, and makes a wish look
#: like talk. "Answer in #general" and "answer with a thumbs up" are acts, and stay.
_MANNER = re.compile(
    r"(?<!\s)(?:(?<=[.!?:;)\]\"'\u2019\u201d])\s++|[^\S\n]*+\n\s*+)(?:please,? )?+(?:"
    r"(?P<think>(?:let's |let us )?think (?:carefully|hard|step[ -]by[ -]step))"
    r"|explain (?:me )?your (?:reasoning|thinking|answer|steps)"
    r"|show (?:me )?your (?:reasoning|thinking|steps|work|workings?)"
    r"|answer (?:me )?(?:briefly|concisely|honestly"
    rf"|(?:only )?(?:in|as|with) (?:just |only )?(?:{_SHAPES}|yes or no))"
    r"|(?:just |only )?give me (?:just |only )?(?:the|an) (?:final |short )?answer"
    rf"(?: in (?:{_SHAPES}))?"
    r"|be (?:brief|concise|precise)|keep it (?:brief|short|concise))"
    r"(?:,? (?:please|thanks))?[.!]*+\s*+$",
    re.IGNORECASE,
)
_MANNERS, _MANNER_CHARS = 3, 100
#: "Jot down: buy milk": people say so, tools do not, and to the model that ships it is noise.
_PLAINLY = {"jot": "note", "jots": "notes", "jotted": "noted", "jotting": "noting"}
_JOT = re.compile(r"(?<![\w/\\@#.:-])jot(?:s|ted|ting)?(?![\w/\\@]|[.:-]\w)", re.IGNORECASE)
#: "#general" as chats write it: no number of an issue, no colour, no directive, and nothing that a
#: word before it calls a tag.
_CHANNEL = re.compile(
    r"(?<![\w/&#.\[(\"'`])(?<!with )(?<!tag )(?<!tags )(?<!tagged )(?<!label )(?<!labelled )"
    r"(?<!channel )#(?!(?:[0-9a-f]{3}|[0-9a-f]{6}|include|define|if|endif|pragma)\b)"
    r"([a-z][\w-]*+)(?!\s++(?:channel|topic|space|hashtag)s?\b)",
    re.IGNORECASE,
)
#: Where tools speak of these, a `#name` may as well be one of them.
_OTHER_NAMES = ("hashtag", "selector")
#: An e-mail address, but not `git@host:path`.
_MAIL = re.compile(r"(?<![\w.+-])([\w.+-]{1,64}@)[\w-]++(?:\.[\w-]++)++(?!:\S|[\w@/])")
_ANY_HOST = r"\1example.com"


def unaddressed(text: str) -> str:
    """The text without the salutation that it begins with; one of a single word as it is."""
    text = text.strip()
    at = 0
    for _ in range(_SALUTATIONS):
        found = _SALUTATION.match(text, at)
        if found is None:
            break
        at = found.end()
    rest = text[at:]
    return rest if len(rest.split(None, 1)) > 1 else text


def unmannered(text: str, words: KnownWords) -> str:
    """The text without what its end says of the answer's manner: "... Be brief; answer in German".

    "Think step by step" stays where a tool or a server is called so.
    """
    for _ in range(_MANNERS):
        found = _MANNER.search(text, max(len(text) - _MANNER_CHARS, 0))
        if found is None or (found["think"] and words.names("think")):
            break
        text = text[: found.start()]
    return text


def plainly(text: str, words: KnownWords) -> str:
    """The text in words that tools are described in: jot down -> note down, unless a tool jots."""
    return text if words.has("jot") else _JOT.sub(lambda it: _PLAINLY[it[0].lower()], text)


def channelled(text: str, words: KnownWords) -> str:
    """The text with channels called so: "what did I miss in #ops?" says to neither side that a chat
    is meant. Only where tools have channels, and nothing else that is written like them.
    """
    if "#" not in text or not words.has("channel") or any(map(words.has, _OTHER_NAMES)):
        return text
    return _CHANNEL.sub(r"channel #\1", text)


def anyhost(text: str) -> str:
    """The text with e-mail addresses that name no host: "mail it to ann@slack.com" is nothing to be
    done in Slack.
    """
    return _MAIL.sub(_ANY_HOST, text) if "@" in text else text
