"""A caller's text without what is said to whoever listens, in words that tools are described in.

Owns: which salutations are left out, which words are put plainly, what of a mail address counts.
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
    rf"|(?:great|sorry|excuse me|by the way|btw|quick question){_PAUSE}",
    re.IGNORECASE,
)
_SALUTATIONS = 4
#: "Jot down: buy milk": people say so, tools do not, and to the model that ships it is noise.
_PLAINLY = {"jot": "note", "jots": "notes", "jotted": "noted", "jotting": "noting"}
_JOT = re.compile(r"(?<![\w/\\@#.:-])jot(?:s|ted|ting)?(?![\w/\\@]|[.:-]\w)", re.IGNORECASE)
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


def plainly(text: str, words: KnownWords) -> str:
    """The text in words that tools are described in: jot down -> note down, unless a tool jots."""
    return text if words.has("jot") else _JOT.sub(lambda it: _PLAINLY[it[0].lower()], text)


def anyhost(text: str) -> str:
    """The text with e-mail addresses that name no host: "mail it to ann@slack.com" is nothing to be
    done in Slack.
    """
    return _MAIL.sub(_ANY_HOST, text) if "@" in text else text
