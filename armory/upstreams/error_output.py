"""What the processes of one stdio server wrote to standard error, or in vain to standard output.

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
_NOISE = re.compile(
    r"\s*(?:at |File \"|\^+$|~+$|\.\.\. |Node\.js v|npm (?:warn|notice)|npm (?:error|ERR!)"
    r" (?:A complete|code |errno )|throw |Traceback \(|usage: |\[notice\]|[{}()\[\],;]+$)",
    re.IGNORECASE,
)
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
    r"|not set|unset|unauthori[sz]ed|forbidden)\b",
    re.IGNORECASE,
)


class ErrorOutput:
    """The last 64 KiB of standard error, of every process that the upstream has had.

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
        """What a new process writes: 16 KiB of it alone, besides among all. It may be another
        principal's than the others.
        """
        made = ErrorOutput()
        made._kept_bytes, made._whole = _OF_ONE_BYTES, self
        return made

    def add(self, line: bytes) -> str:
        """Keep one line, cut where it is very long; gives it as text."""
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
        """What is kept of the lines, without secrets."""
        return [redacted(text) for text in self._lines]

    def last(self) -> str:
        """The last line that says something; "" where there is none."""
        for text in reversed(self._lines):
            if not (_NOISE.match(text) or _USUAL.match(text)):
                return _shown(text)
        return ""

    def telling(self) -> str:
        """The line that says most of what went wrong; "" where none does, as npm's warnings do
        not.
        """
        lines = list(self._lines)
        named = [text for text in lines if _NAMED.match(text.strip()) and not _NOISE.match(text)]
        if named:
            return _shown(named[-1])
        spoken = [
            _PREFIX.sub("", text, count=1)
            for text in lines
            if not (_NOISE.match(text) or _PROGRESS.match(text))
        ]
        if not spoken:
            return next(filter(None, map(_script_that_failed, lines)), "")
        words = [text for text in spoken if _WORDS.search(text)]
        return _shown(words[0] if words else spoken[-1])


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
    return redacted(text.strip())[:_QUOTED]
