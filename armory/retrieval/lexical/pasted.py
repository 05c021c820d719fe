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
_LEAST_TERMS = 3
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


def without_output(text: str) -> str:
    """The text without stack traces, lines of logs and diffs, if it says something besides."""
    if text.count("\n") < 2:
        return text
    rest = _OUTPUT.sub("", text).strip()
    if len(text) - len(rest) < _LEAST_CHARS or len(terms(rest, _LEAST_TERMS)) < _LEAST_TERMS:
        return text
    return rest
