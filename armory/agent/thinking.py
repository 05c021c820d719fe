"""Separates a reasoning model's thinking from its answer.

Owns: recognising the tags. Never imports the loop.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

_OPEN = re.compile(r"<(think|thinking|thought|reasoning|reflection)>", re.IGNORECASE)
_CLOSE = re.compile(r"</(think|thinking|thought|reasoning|reflection)>", re.IGNORECASE)


def without_thinking(text: str, note: Callable[[str], None]) -> tuple[str, str]:
    """(the answer, what was thought).

    Args:
        text: what the model wrote.
        note: told what had to be mended.
    """
    inside, body = _closed(text)
    if inside:
        note("thinking tags taken out")
    closed = _CLOSE.search(body)
    if closed is not None:
        # The opening tag is part of some models' prompt template: all before belongs to it.
        note("a closing thinking tag without an opening one")
        inside.append(body[: closed.start()].strip())
        body = _CLOSE.sub("\n", body[closed.end() :])
    opened = _OPEN.search(body)
    if opened is not None:
        note("a thinking tag that is never closed")
        body = body[: opened.start()] + "\n" + _OPEN.sub("\n", body[opened.end() :])
    return body, "\n".join(part for part in inside if part)


def _closed(text: str) -> tuple[list[str], str]:
    """What stands between each opening tag and the first closing one of its name, and the rest."""
    closing: dict[str, list[re.Match[str]]] = {}
    for match in _CLOSE.finditer(text):
        closing.setdefault(match[1].lower(), []).append(match)
    inside: list[str] = []
    rest: list[str] = []
    at = 0
    for opened in _OPEN.finditer(text):
        ends = closing.get(opened[1].lower(), [])
        place = bisect_left(ends, opened.end(), key=re.Match.start)
        if opened.start() >= at and place < len(ends):
            inside.append(text[opened.end() : ends[place].start()].strip())
            rest.append(text[at : opened.start()])
            at = ends[place].end()
    return inside, "\n".join((*rest, text[at:]))
