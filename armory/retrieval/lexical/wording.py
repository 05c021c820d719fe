"""Removes what is said only to the assistant, and words the rest as tools are described.

Owns: which salutations, fillers and wishes for the answer's manner are left out, which words are
put plainly, what of a mail address counts.
Never imports embedders, indexes or rankers.
"""

from __future__ import annotations

import re

from armory.retrieval.lexical.intents import ACT, VERB
from armory.retrieval.lexical.known_words import KnownWords
from armory.retrieval.lexical.spelling import LEAST_CHARS, is_english
from armory.retrieval.lexical.text import fold, terms

_PAUSE = r"\s*+(?:[,!]|[.:;\u2013\u2026-](?=[\s.]))++\s*+"
_WORDS = r"[^.,:;!?\n]{1,60}+"
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
    r"|(?:great|excuse me|by the way|btw|(?:i have |another |one |a |quick )*+question"
    r"|perfect|awesome|excellent|no worries|in the meantime|like last time"
    rf"|(?:thanks|thank you|thx)(?: so much| a lot| very much| again)?+(?: for {_WORDS})?+"
    rf"|sorry(?: (?:for|about) {_WORDS})?+|now that {_WORDS}(?=,)|while (?:you're|we're) at it"
    r"|(?:and )?+one more|(?:(?:and|one|another|a) )*+(?:(?:more|last|other|next|new|different) )++"
    r"(?:thing|question|request|topic))"
    rf"{_PAUSE}",
    re.IGNORECASE,
)
_SALUTATIONS = 4
_FILLS = (" uh", " um", "um ", "uh ", "um,", "uh,", " erm", " hmm")
#: What people say while they think, and what writes down their words keeps: "pull up the, uh, last
#: invoice". Not "5 um", which is a length.
_FILLER = re.compile(
    r"(?<![\d\s])(?:\s*+,)?(?:\s++|\A)(?:u{1,3}h{1,3}m?|u{1,2}m{1,3}|erm|hmm{1,3})(?:\s*+,)?"
    r"(?=\s|[.?!]|\Z)"
)
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
#: "Close the ticket" means an issue where tools know issues and none a ticket, but not one for the
#: train.
_TICKET = re.compile(r"(?<![\w/\\@#.:-])ticket(?=s?(?:[^\w/\\@.:-]|[.:-](?!\w)|\Z))", re.IGNORECASE)
_ADMISSION = re.compile(
    r"\b(?:buy|bought|pay|price|train|bus|flight|plane|ferry|concert|movie|cinema|theat(?:er|re)"
    r"|museum|festival|lottery|parking|speeding)s?\b",
    re.IGNORECASE,
)
#: "Open a PR" means a merge request where tools know no other.
_PULL_REQUEST = re.compile(
    r"(?<![\w/\\@#.:-])(?:PR|pr|MR|(?i:pull[ -]request))(?=s?+(?![\w/\\@]|[.:-]\w))"
)
#: "How do I get to the airport?" is talk to the model that ships. Not "to know her", nor "to the
#: settings page".
_WAY = re.compile(
    r"\bhow (?:do|can|could|would|should) (?:i|we|you|one) (?:best |quickly )?get"
    r"(?= (?:(?:to|from|back)\b"
    r"(?! (?:a |an |the |my |your )?(?:know|sleep|see|be|use|work|start|level))"
    r"|there\b|home\b))(?![^.?!\n]{0,80}\b(?:page|settings?|screen|menu|tab|level|mode|dashboard"
    r"|section|folder|console|point|result|answer)\b)",
    re.IGNORECASE,
)
_DIRECTIONS, _WAY_CHARS = ("direct", "travel"), 500
#: "What time is it in Tokyo?" is nearer to what converts times than to what tells them; with a
#: figure, "if it is 9 here, what time is it there?", it is meant.
_TIME = re.compile(r"\bwhat(?: time is it|(?:'s|\u2019s| is) the time)(?= in\b)", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
#: "Don't mail him, just ping him": what is not to be done. After a comma or at the beginning, so
#: that nobody does it: "tools that don't share data", "they are old and don't show it".
_UNWANTED = re.compile(
    rf"(?:\A|(?<=[.!?;:])\s++|,\s++(?:and |but )?+)(?:please )?+"
    rf"(?:do not|don't|don\u2019t|dont) (?!(?:ask|get|know|look|see|tell)\b)(?:{ACT})\b"
    r"[^.,;:!?\n]{0,200}+"
    r"(?:(?P<ends>[.;:!?]|\Z)|,\s*+(?:but |just |instead,? |rather |only |please )*+)",
    re.IGNORECASE,
)
#: "Not in GitHub, use GitLab": which server is not meant.
_ELSEWHERE = re.compile(
    r"(?:\A|(?<=\s)|(?<=[(]))(?:but )?+(?:not (?:in|on|with|via|from|using|through|by)"
    r"|(?P<than>instead of|rather than|without using)) (?:the |my |our )?+(?P<server>[\w-]{2,40}+)"
    r"(?=[,.;:!?)]|\s*+\Z|\s++(?:but|use|just)\b)[,;:]?",
    re.IGNORECASE,
)
#: Without any of these no text denies anything; looking for them costs next to nothing.
_DENYING = ("not ", "n't ", "n\u2019t ", "dont ", "instead ", "rather ", "without ")
#: Servers whose names are words that are denied often: "not in time".
_ORDINARY = frozenset(("date", "fetch", "memory", "order", "time"))
#: What people type where they would type commands, and what tools are described to do.
_COMMANDS = {
    "ls": "list directory",
    "pwd": "show current directory",
    "cat": "read file",
    "touch": "create file",
    "rm": "delete file",
    "cp": "copy file",
    "grep": "search files for",
}
_OPTIONS = r"(?:\s++-{1,2}\w[\w-]*+)*+"
_PATH = r"\s++[\w~@*-]*+[./][\w./~@*-]*+"
#: A whole text that is one: "ls", "ls -la src", "cat a.txt", but not "cat pictures".
_COMMAND = re.compile(
    rf"\s*+(?:(ls){_OPTIONS}((?:\s++[\w./~@*-]++)?+)|(pwd)()|(grep){_OPTIONS}(\s++[^\n]++)"
    rf"|(cat|touch|rm|cp){_OPTIONS}((?:{_PATH}){{1,4}}+))\s*+"
)
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


def unfilled(text: str) -> str:
    """The text without spoken fillers; unchanged if it is hardly anything else."""
    if not any(hint in text for hint in _FILLS):
        return text
    rest = _FILLER.sub("", text).lstrip()
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
    """The text in words that tools are described in: jot down -> note down, unless a tool jots;
    `ls src` -> list directory src; where some give directions, how do I get to the airport -> get
    directions to the airport. Where a tool is called by a command, that stays beside it.
    """
    if (found := _COMMAND.fullmatch(text)) is not None:
        does, on = filter(lambda group: group is not None, found.groups())
        said = _COMMANDS[does]
        return f"{said} ({text.strip()})" if words.names(does) else f"{said}{on}"
    if "get " in text and _WAY.search(text, 0, _WAY_CHARS) and all(map(words.has, _DIRECTIONS)):
        text = _WAY.sub("get directions", text, count=1)
    return text if words.has("jot") else _JOT.sub(lambda it: _PLAINLY[it[0].lower()], text)


def as_tools_say(text: str, words: KnownWords) -> str:
    """The text with things called as the tools that may be found call them: where these are called
    by issues and none speaks of tickets, close the ticket -> close the issue; likewise pull
    requests that are merge requests; where they tell the current time, what time is it in Rome ->
    get the current time in Rome.
    """
    if "time" in text and _asks_time(text, words):
        text = _TIME.sub("get the current time", text, count=1)
    if _PULL_REQUEST.search(text) and _merges_requests(words):
        text = _PULL_REQUEST.sub("merge request", text)
    if "icket" in text and _means_issue(text, words):
        text = _TICKET.sub("issue", text)
    return text


def _merges_requests(words: KnownWords) -> bool:
    """Whether tools are called by merge requests, and none by pull requests."""
    return words.called("merg", "request") > words.called("pull", "request") == 0


def _asks_time(text: str, words: KnownWords) -> bool:
    """Whether a text asks what time it is, and tools tell the current one."""
    if not _TIME.search(text, 0, _WAY_CHARS) or _DIGIT.search(text):
        return False
    return words.names("time") and words.names("current")


def _means_issue(text: str, words: KnownWords) -> bool:
    """Whether a ticket is an issue to the tools that may be found."""
    if words.has("ticket") or not words.names("issu"):
        return False
    return not _ADMISSION.search(text, 0, _WAY_CHARS)


def without_negated(text: str, words: KnownWords) -> str:
    """The text without what is not to be done and the server that is not meant, if it says more."""
    lower = text.lower()
    if not any(hint in lower for hint in _DENYING):
        return text
    rest = _ELSEWHERE.sub(lambda it: "" if _is_server(it, words) else it[0], text)
    rest = _UNWANTED.sub(lambda it: f"{it['ends'] or ''} " if it[0][0] == "," else " ", rest)
    if rest == text:
        return text
    rest = rest.strip(" .,;:!?\n")
    return rest if len(rest.split(None, 1)) > 1 else text


def _is_server(found: re.Match[str], words: KnownWords) -> bool:
    """Whether a server that may be found is called so, and not by a word of every day."""
    name = fold(found["server"])
    if name in _ORDINARY or (found["than"] and found["server"].islower() and _is_common(name)):
        return False
    parts = terms(name)
    return bool(parts) and all(map(words.serves, parts))


def _is_common(word: str) -> bool:
    return len(word) < LEAST_CHARS or is_english(word)


def anyhost(text: str) -> str:
    """The text with e-mail addresses that name no host: "mail it to ann@slack.com" is nothing to be
    done in Slack.
    """
    return _MAIL.sub(_ANY_HOST, text) if "@" in text else text
