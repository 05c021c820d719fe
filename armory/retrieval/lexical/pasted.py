"""A caller's text without the output of programs that is pasted into it: stack traces, lines of
logs, diffs.

Owns: what of a text such output is, and when it may be left out. Never imports anything of Armory
but the tokenizer.

A wish above or below it is in a few words of hundreds: the trace would be searched for, and judged
by refusal.
"""

from __future__ import annotations

import re

from armory.retrieval.lexical.text import terms

_LEAST_CHARS = 80
"""Characters of output that are worth leaving out; a line may as well be quoted for itself."""
_LEAST_TERMS, _LEAST_BESIDE_CHAT = 3, 2
"""What is left has so many searchable terms, or the output is all there is to go by: "fix it"."""
_OUTPUT = re.compile(
    r"^(?:"
    r"diff --git [^\n]*+(?:\n(?:index |old |new |similarity |rename |[-+@ ])[^\n]*+)*+"
    r'|[ \t]*+File "[^"\n]*+", line \d[^\n]*+(?:\n(?:[ ]{4,}+|\t)[^\n]*+){0,2}+'
    r"|(?:[ \t]*+(?:at [\w.$<]|\.\.\. \d++ more|Caused by:|goroutine \d|-->|\d*+ ?\| |> ?\d++ \| )"
    r"|[ \t]++[\w./-]++:\d++"
    r"|Traceback \(most recent|npm (?:ERR!|error|WARN|warn)|\[signal |exit status \d"
    r"|[\[(]?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:|[\[(]?\d\d:\d\d:\d\d\b"
    r"|(?:[A-Z][a-z]{2} ++\d{1,2} )\d\d:\d\d:\d\d\b)[^\n]*+"
    r")(?:\n|\Z)",
    re.MULTILINE,
)
#: "[10:02] Mark: the deploy is stuck".
_CHAT = re.compile(
    r"^[ \t]*+[\[(]?\d{1,2}[:.]\d\d(?:[:.]\d\d)?+(?: ?[AaPp][Mm])?+[\])]?+(?: ?[-\u2013])?+ "
    r"[A-Z][\w.'-]{0,30}+(?: [A-Z][\w.'-]{0,30}+)?+: [^\n]*+(?:\n|\Z)",
    re.MULTILINE,
)


def without_output(text: str) -> str:
    """The text without stack traces, lines of logs, diffs and chats with the hour of each line, if
    it says something besides.
    """
    if text.count("\n") < 2:
        return text
    text = _without(_CHAT, text, _LEAST_BESIDE_CHAT)
    return _without(_OUTPUT, text, _LEAST_TERMS)


def _without(output: re.Pattern[str], text: str, least: int) -> str:
    """The text without such output, if that is worth it and as many searchable terms are left."""
    rest = output.sub("", text).strip()
    if len(text) - len(rest) < _LEAST_CHARS or len(terms(rest, least)) < least:
        return text
    return rest
