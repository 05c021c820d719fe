"""The last lines that the processes of one stdio server wrote to standard error (or, by mistake, to
standard output).

Owns: keeping the last of it, and finding the line that says most. Never imports a transport.
"""

from __future__ import annotations

import re
from collections import deque

from armory.observability.redaction import redacted

KEPT_BYTES = 64 * 1024
_OF_ONE_BYTES = 16 * 1024
_LINE_BYTES = 2_000
_QUOTED = 300
_PREFIX = re.compile(r"npm (?:error|ERR!) ?")
_FRAMES = "+|│╭╰"
"""What Python draws around the errors of a group, and `rich` around any."""
_CAUSE = "[cause]: "
"""Before the error that made Node.js throw another one: `fetch failed` alone says nothing."""
_NOISE = re.compile(
    r"\s+at |\s*(?:File \"|\^+$|~+$|\.\.\. |Node\.js v|npm (?:warn|notice)|npm (?:error|ERR!)"
    r" (?:A complete|code |errno )|throw |(?:Exception Group )?Traceback \(|\w*ExceptionGroup: "
    r"|usage: |\[notice\]|for further information visit |error$|\d+ -+$"
    r"|--?[a-z]\S*(?: \S+){0,3}\s\s+\S|[{}()\[\],;]*$)",
    re.IGNORECASE,
)
_STACK = re.compile(r"\s+at |\s*(?:File \"|Traceback \()")
_BRACKETS = frozenset("{}()[],; ")
_GOES_ON = re.compile(r"[:{(\[]$|\d validation errors? for \S+$")
"""What is wrong stands in the lines below, as of pydantic and zod."""
_WHY = re.compile(r"\s*(?:cause|caused by): ?", re.IGNORECASE)
"""How uv and other programs in Rust go on below an error."""
_NAMED = re.compile(
    r"(?:[\w.]{0,80}(?:Error|Exception)|fatal|panic|error|err|critical)(?:\s?\[\w{1,40}\])?: ?\S",
    re.IGNORECASE,
)
_PROGRESS = re.compile(r"npm (?:info|http|timing) ")
_USUAL = re.compile(r"npm info (?:using |ok\b)")
_SCRIPT = re.compile(r"npm info run (\S{1,200}) (\w{1,40}) \{ code: ([1-9]\d{0,9}|null)\b")
"""A package's script that failed; npm may end without another word about it."""
_EXTRAS = {"No module named mcp_server_time": "demo"}
"""What Python says where a server is not installed, and the extra of Armory that brings it."""
_WORDS = re.compile(
    r"\b(?:errors?|fatal|fail(?:s|ed|ure)?|cannot|can't|could not|couldn't|not found|denied|missing"
    r"|no matching|required?|invalid|unable|refused|unknown|no such|must|please (?:set|provide)"
    r"|not set|not provided|unset|unauthori[sz]ed|forbidden)\b",
    re.IGNORECASE,
)


class ErrorOutput:
    """The last 64 KiB of standard error of all processes that the upstream has had.

    Attributes:
        count: how many lines there have been in all.
    """

    def __init__(self) -> None:
        self.count = 0
        self._lines: deque[str] = deque()
        self._size = 0
        self._kept_bytes = KEPT_BYTES
        self._whole: ErrorOutput | None = None

    def of_one(self) -> ErrorOutput:
        """The output of one new process: its own last 16 KiB, which also go to the whole. Errors of
        one principal's process must not show another's output.
        """
        made = ErrorOutput()
        made._kept_bytes, made._whole = _OF_ONE_BYTES, self
        return made

    def add(self, line: bytes) -> str:
        """Keep one line, cut where it is very long; returns it as text."""
        text = line[:_LINE_BYTES].decode("utf-8", "replace").rstrip()
        if text:
            self._keep(text)
        return text

    def _keep(self, text: str) -> None:
        self.count += 1
        self._lines.append(text)
        self._size += len(text) + 1
        while self._size > self._kept_bytes:
            self._size -= len(self._lines.popleft()) + 1
        if self._whole is not None:
            self._whole._keep(text)

    def lines(self) -> list[str]:
        """The lines that are kept, with secrets redacted."""
        return [redacted(text) for text in self._lines]

    def last(self, begun: bytes = b"") -> str:
        """The last line that is not noise; "" where there is none.

        Args:
            begun: the beginning of the next one.
        """
        asked = begun[:_LINE_BYTES].decode("utf-8", "replace").strip()
        for text in (asked, *reversed(self._lines)):
            if text and not (_NOISE.match(text) or _USUAL.match(text)):
                return _shown(text)
        return ""

    def telling(self) -> str:
        """The line that explains best what went wrong; "" where none does, as npm's warnings."""
        lines = [_unframed(text) for text in self._lines]
        spoken = [at for at, text in enumerate(lines) if not _NOISE.match(text)]
        named = [at for at in spoken if _NAMED.match(lines[at].strip())]
        if named:
            return _shown(_whole(lines, named[-1]))
        spoken = [at for at in spoken if not _PROGRESS.match(lines[at])]
        if not spoken:
            return next(filter(None, map(_script_that_failed, lines)), "")
        words = [at for at in spoken if _WORDS.search(_PREFIX.sub("", lines[at], count=1))]
        return _shown(_PREFIX.sub("", _whole(lines, words[0] if words else spoken[-1]), count=1))


def _whole(lines: list[str], at: int) -> str:
    """The line there, with those below it that it introduces."""
    said = lines[at].strip()
    goes_on = _GOES_ON.search(said)
    for text in lines[at + 1 :]:
        goes_on = goes_on or _WHY.match(text)
        if not goes_on or _STACK.match(text) or len(said) > _QUOTED:
            break
        if not _NOISE.match(text) or _BRACKETS.issuperset(text):
            said += " " + text.strip()
    return said


def _unframed(text: str) -> str:
    inner = text.lstrip().removeprefix(_CAUSE)
    if not inner.startswith(tuple(_FRAMES)):
        return inner if _CAUSE in text else text
    return inner.lstrip(_FRAMES + "─- ").rstrip("│╮╯─ ")


def _script_that_failed(text: str) -> str:
    found = _SCRIPT.match(text)
    if found is None:
        return ""
    package, stage, code = found.groups()
    how = "was killed" if code == "null" else f"failed with status {code}"
    return (
        f"the {stage} script of {package} {how}; its command by hand with the option "
        "--foreground-scripts shows why"
    )


def _shown(text: str) -> str:
    for end, extra in _EXTRAS.items():
        if text.endswith(end):
            return f'{end}; pip install "armory-mcp-gateway[{extra}]" brings it'
    message = redacted(text.strip())
    return message if len(message) <= _QUOTED else f"{message[: _QUOTED - 1]}\u2026"
