"""Names recognised by their form: #general is a channel, PROJ-12 an issue.

Owns: `called_so`, a text that says it to both sides of a search. Never imports embedders, indexes
or rankers.

Neither words nor meaning find a chat for "what did I miss in #ops?". Only what the tools that may
be found speak of is said.
"""

from __future__ import annotations

import re

from armory.retrieval.lexical.known_words import KnownWords

_CHANNELS = (
    r"(?!(?:[0-9a-f]{3}|[0-9a-f]{6}|include|define|if|endif|pragma)\b)"
    r"([a-z][\w-]*+)(?!\s++(?:channel|topic|space|hashtag)s?\b)"
)
#: "#general" as chats write it: no number of an issue, no colour, no directive, and nothing that a
#: word before it calls a tag.
_CHANNEL = re.compile(
    r"(?<![\w/&#.\[(\"'`])(?<!with )(?<!tag )(?<!tags )(?<!tagged )(?<!label )(?<!labelled )"
    rf"(?<!channel )#{_CHANNELS}",
    re.IGNORECASE,
)
#: Where tools speak of these, a `#name` may as well be one of them. Then it is a channel where
#: something goes to it or is in it, and the text speaks of no page and no tag.
_OTHER_NAMES = ("hashtag", "selector")
_IN_CHANNEL = re.compile(
    r"#(?:(?<=\bin #)|(?<=\binto #)|(?<=\bto #)|(?<=\btell #)|(?<=\bfrom #)|(?<=\bon #))"
    rf"{_CHANNELS}",
    re.IGNORECASE,
)
#: At the beginning of a text it is one as well where no tool speaks of hashtags, if more follows.
_BEGUN = re.compile(rf"\A#(?=[\w-]++[:,]?\s++\w){_CHANNELS}", re.IGNORECASE)
_EXAMINED_CHARS = 2_000
"""Characters of a text that tell whether it speaks of pages or tags."""
_OTHERWISE = re.compile(
    r"\b(?:click|fill|type|enter|hit|press|hover|scroll|pick|choose|select|drag|focus|tap|wait"
    r"|element|button|field|selector|drop-?down|iframe|modal|dialog|page|browser|menu|markup|css"
    r"|html|dom|anchor|mouse|screenshot|input|form|tooltip|checkbox|section|div"
    r"|tag|tags|tagged|hashtags?|trending|trends?|tweet|tweets)\b",
    re.IGNORECASE,
)
#: The key of an issue, which is no standard (ISO-8601, UTF-8), no product (GPT-4), and nothing that
#: the word before it calls something else; with the word before it that calls it one.
_ISSUE = re.compile(
    r"(?:\b((?i:issue|ticket|story|task|bug|epic)) |(?<![\w/.'\"-])(?<!id )(?<!ID )(?<!item )"
    r"(?<!order )(?<!project )(?<!case ))"
    r"(?!(?:AES|AK|ANSI|BRC|CVE|COVID|CWE|DIN|EIP|EN|ERC|GMT|GPT|HTTP|ICD|IEC|IEEE|INV|IP|ISO|MD|ORD|PEP|RFC|RSA"
    r"|SHA|SKU|TLS|USB|UTC|UTF)-)([A-Z][A-Z0-9]{1,9}-[1-9][0-9]{0,5})(?![\w/'\"]|[.-]\w)"
)
#: Trackers that number issues so. Where tools are called by one of them, it is said as well.
_TRACKERS = ("jira", "linear", "youtrack")


def called_so(text: str, words: KnownWords) -> str:
    """The text with channels and issues called so.

    Args:
        text: a caller's.
        words: of the tools that may be found.
    """
    if "#" in text and words.has("channel"):
        text = _channelled(text, words)
    if "-" in text and _ISSUE.search(text) and words.names("issu"):
        there = [name for name in _TRACKERS if words.names(name)]
        if there:
            said = len(there) > 1 or there[0] in text.lower()
            known = "" if said else f"{there[0]} "
            text = _ISSUE.sub(lambda it: f"{known}{it[1] or 'issue'} {it[2]}", text)
    return text


def _channelled(text: str, words: KnownWords) -> str:
    if not any(map(words.has, _OTHER_NAMES)):
        return _CHANNEL.sub(r"channel #\1", text)
    if _OTHERWISE.search(text, 0, _EXAMINED_CHARS):
        return text
    if not words.has("hashtag"):
        text = _BEGUN.sub(r"channel #\1", text)
    return _IN_CHANNEL.sub(r"channel #\1", text)
