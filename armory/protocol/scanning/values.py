"""Finds the end of a long JSON value in steps; a parser would process all of it at once.

Owns: `value_end`, `run_end`, `unmatched`, `at_once`. Never imports the protocol or a transport.

A piece between two commas is JSON with what is open before it opened, and what is open after it
closed. What that is, its brackets tell; whether they told right, a parser says: after what it
accepts nothing else can be open. So a value is valid if and only if all its pieces are.

A piece without such a comma ends in a long text, number or space. That is as valid without its
middle if the middle may stand where it stands; so the middle is gone through, and left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Raw

from armory.protocol.scanning.nesting import levels_at_last_comma, without_escapes
from armory.protocol.scanning.surrogates import BEYOND_BYTES, piece_end

PIECE_BYTES = 64 * 1024
"""Gone through at a time: 0.2 ms, or 0.8 where brackets and commas in texts mislead."""
_WINDOWS = (4 * 1024, 16 * 1024, PIECE_BYTES)
"""What ends within so many bytes, as nearly all does, is left to the parser."""
_GUESSES = 2
_REDUCTIONS = 5
"""Nested deeper, each of them would take 0.3 ms."""
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = {ord("{"): b'{"":', ord("["): b"["}
_GOING_ON = {ord("{"): b'{"":0,', ord("["): b"[0,"}
_GONE_ON = {ord("{"): b',"":0}', ord("["): b",0]"}
_CLOSING = bytes.maketrans(b"{[", b"}]")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_DIGITS = re.compile(rb"[0-9]*+")
SPACES = re.compile(rb"[ \t\r\n]*+")
_SPACE = b" \t\r\n"
_LEFT_OF_RUN = 2
"""Digits or spaces that stay of a run that is left out. Two are enough: several digits behind a
leading 0 are as invalid as one."""

_Rest = Callable[[memoryview, int, int], Generator[None, None, int]]
_T = TypeVar("_T")
_skipped = msgspec.json.Decoder(Raw).decode


def at_once(steps: Generator[None, None, _T]) -> _T:
    """The result of the steps, taken without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def value_end(
    view: memoryview, at: int, piece_bytes: int = PIECE_BYTES
) -> Generator[None, None, int]:
    """Where the value at `at` ends and the next byte that is no space stands.

    Args:
        view: JSON, in which something follows the value, if only a bracket.
        at: where the value begins.
        piece_bytes: gone through at a time.

    Raises:
        msgspec.DecodeError: it is not JSON, or nothing follows.
    """
    for window in _WINDOWS:
        if (end := _ends(b"", bytes(view[at : at + min(window, piece_bytes)]))) is not None:
            return at + end
    levels = held = b""  # what is open, and what was gone through since the last comma
    while at + piece_bytes < len(view):
        piece = held + bytes(view[at : at + piece_bytes])
        found = _guessed(levels, piece)
        if found is None:
            if (end := _ends(levels, piece)) is not None:
                return at - len(held) + end
            found = _looked_for(levels, piece)
        if found is not None:
            cut, levels = found
            at += cut + 1 - len(held)
            held = b""
        elif (long := _long_end(piece)) is None or len(held) > piece_bytes:
            break
        else:
            kept, rest = long
            at = yield from rest(view, at + kept - len(held), piece_bytes)
            held = piece[:kept]
        yield
    begun = _begun(levels) + held
    try:
        _skipped(b"".join((begun, view[at:])) if begun else view[at:])
    except msgspec.DecodeError as error:
        if (end := _trailing(error)) is None:
            raise
        return at + end - len(begun)
    raise msgspec.DecodeError("Input data was truncated")


def _long_end(piece: bytes) -> tuple[int, _Rest] | None:
    """How much of a piece to keep that ends in a long text, number or space, begun in none, and
    what finds the end of the rest of it; None: it ends in none.
    """
    plain = without_escapes(piece)
    if plain.count(b'"') % 2:
        return plain.rindex(b'"') + 1, _text_end
    for characters, rest in _RUNS:
        kept = len(piece.rstrip(characters)) + _LEFT_OF_RUN
        if kept < len(piece):
            return kept, rest
    return None


def _text_end(view: memoryview, at: int, piece_bytes: int) -> Generator[None, None, int]:
    """The position of the closing quote of the string that contains `at`."""
    while at < len(view):
        part = bytes(view[at : at + piece_bytes + BEYOND_BYTES])
        part = part[: piece_end(part, 0, piece_bytes)]
        try:
            _skipped(b'"%b"' % part)
        except msgspec.DecodeError as error:
            if (end := _trailing(error)) is None:
                raise
            return at - 2 + len((b'"' + part)[:end].rstrip(_SPACE))
        at += len(part)
        yield
    return at


def run_end(
    run: re.Pattern[bytes], view: memoryview, at: int, piece_bytes: int = PIECE_BYTES
) -> Generator[None, None, int]:
    """Where the characters that `run` matches, be it none, end."""
    while (found := run.match(view, at, at + piece_bytes)) is not None:
        if found.end() < at + piece_bytes:
            return found.end()
        at = found.end()
        yield
    return at


def _guessed(levels: bytes, piece: bytes) -> tuple[int, bytes] | None:
    """The last comma between two values, and what is open there, where no text misleads."""
    cut = len(piece)
    for _ in range(_GUESSES):
        cut = piece.rfind(b",", 0, cut)
        if cut < 0:
            return None
        left = unmatched(piece[:cut].translate(None, NO_BRACKETS))
        if left is None:
            return None
        opened = left.lstrip(b"]}")
        after = _accepted(levels, piece[:cut], len(left) - len(opened), opened)
        if after is not None:
            return cut, after
    return None


def _looked_for(levels: bytes, piece: bytes) -> tuple[int, bytes] | None:
    """As `_guessed`, also where texts hold commas and brackets."""
    found = levels_at_last_comma(piece)
    if found is None:
        return None
    cut, closed, opened = found
    after = _accepted(levels, piece[:cut], closed, opened)
    return None if after is None else (cut, after)


def unmatched(brackets: bytes) -> bytes | None:
    """Those that have no partner; None where they are nested too deep to be told in a few looks."""
    for _ in range(_REDUCTIONS):
        size = len(brackets)
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(brackets) == size:
            return brackets
    return None


def _accepted(levels: bytes, part: bytes, closed: int, opened: bytes) -> bytes | None:
    """What is open behind a part, if a parser takes it so: of `levels` so many closed, and opened
    what is said.
    """
    after = levels[: max(len(levels) - closed, 0)] + opened
    if not after or b"]" in opened or b"}" in opened:
        return None
    closing = after[-2::-1].translate(_CLOSING)
    try:
        _skipped(b"".join((_begun(levels), part, _GONE_ON[after[-1]], closing)))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return after


def _begun(levels: bytes) -> bytes:
    """JSON in which these are open, and a value and a comma stand in the last."""
    if not levels:
        return b""
    return b"".join((*(_OPENING[level] for level in levels[:-1]), _GOING_ON[levels[-1]]))


def _ends(levels: bytes, part: bytes) -> int | None:
    """Where in a part what follows the value stands; None: it does not end within."""
    begun = _begun(levels)
    try:
        _skipped(begun + part)
    except msgspec.DecodeError as error:
        end = _trailing(error)
        return None if end is None else end - len(begun)
    except RecursionError:
        return None
    return None


def _trailing(error: msgspec.DecodeError) -> int | None:
    found = _TRAILING.search(str(error))
    return None if found is None else int(found[1]) - 1


_RUNS: tuple[tuple[bytes, _Rest], ...] = (
    (b"0123456789", partial(run_end, _DIGITS)),
    (_SPACE, partial(run_end, SPACES)),
)
