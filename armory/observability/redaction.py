"""Masking secrets: the values of configured secrets, and text that has the form of one.

Owns: finding both in a text. Never imports a room; who configures secrets tells their values.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

_T = TypeVar("_T")
HIDDEN = "***"
_GO = {ord(char): f"\\u{ord(char):04x}" for char in "&<>"}
_DOT_NET = {ord(char): f"\\u{ord(char):04X}" for char in "\"&'+<>`"}
_SHORTEST = 6
"""Shorter configured secrets are not looked for: they would be found in any text."""
_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:token|secret|password|passwd|pass|pat|pwd|auth|authorization|api_?key|apikey"
    r"|access_?key|private_?key|key|credential|cookie|dsn)s?$",
    re.IGNORECASE,
)
_KEY = (
    r"(?i:token|secret|password|passwd|passphrase|pwd|authorization|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|credential|cookie)s?"
)
_SECRET_KEY = re.compile(rf"(?:^|[_-]|(?<=[a-z0-9])(?=[A-Z])){_KEY}$")
_SECRET_MEMBER = re.compile(
    rf'(?P<name>(?:["_-]|(?<=[a-z0-9])(?=[A-Z])){_KEY}"\s{{0,8}}:\s{{0,8}})(?!null|"")'
    r'(?:"(?:[^"\\]|\\.)*+(?:"|\Z)|(?P<within>[\[{])|[^\s",{}\[\]]++)',
    re.DOTALL,
)
"""A member of an object in JSON, with its value, or where that is a list or an object, with the
beginning of it."""
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""What tells where a list or an object in JSON ends."""
_OPTION = re.compile(r"--[A-Za-z]|-[A-Za-z]?$")
"""What is another option rather than a value; a password may begin with a hyphen, too."""
CREDENTIAL_SCHEME = re.compile(r"(?:bearer|basic|token|apikey|api-key)\s+", re.IGNORECASE)
"""What stands before the secret in a header."""
_RANDOM = re.compile(
    r"(?=(?:[^0-9]*[0-9]){3})(?=[^A-Za-z]*[A-Za-z])"
    r"(?:[A-Za-z0-9=]{16,}|[0-9A-Fa-f-]{32,}|(?=.*[a-z])(?=.*[A-Z])[\w+/=~-]{30,})"
)
_NAME = r"(?:token|secret|password|passwd|pwd|api[_-]?key|access[_-]?key|signature|credential)s?"
_SECRET_TEXT = re.compile(
    r"(?P<bearer>\b(?:bearer|basic)\s{1,4}+)[A-Za-z0-9._~+/=-]{6,}"
    r"|\b(?:acx_|sk-|sk_live_|rk_live_|gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|AKIA|AIza"
    r"|eyJ[A-Za-z0-9_-]{6,}\.)[A-Za-z0-9._-]{6,}"
    r"|(?P<scheme>://)(?:[^\s/@:]*+:[^\s/@]++|[^\s/@:]{20,}+)@"
    rf"|(?P<named>\b[\w-]{{0,30}}{_NAME}\\?[\"']?\s{{0,2}}[:=]\s{{0,2}}\\?[\"']?)"
    r"(?=[^\s\"',;&<>]{0,80}\d)(?:[^\s\"',;&<>\\]|\\(?![\"'])){8,}+",
    re.IGNORECASE,
)
"""Also in JSON that is a string within JSON, where backslashes stand before its quotes."""
_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{0,4}|.)?", re.DOTALL)
"""An escape in JSON, or the part of it before a text was cut."""


_IN_QUERY = re.compile(r"([?&][^?&=#\s\"'<>]{1,100}=)[^&#\s\"'<>]+")
_LONG_ESCAPE = len("\\u002B")
_PIECE_CHARS, _OVERLAP_CHARS = 8_192, 2_048
"""What of a long text is searched at a time, and what of it is looked at again with the next piece:
more than comes before the value of a secret.
"""
_KEPT = 20
"""Configurations whose secrets are hidden: the first, of which much is in force until a restart,
and the latest. More would slow down every log line where tokens change each hour."""
_turn = threading.Lock()
"""Several configurations may be read at a time, each in a thread of its own."""
_told: list[frozenset[str]] = []
_known: list[str] = []
"""The values of configured secrets, longest first: one may be part of another."""
_told_parameters: list[frozenset[tuple[str, str]]] = []
_parameters: list[tuple[str, str]] = []
"""`?name=value` of configured URLs, and what is shown in its place."""


def hide(values: Iterable[str]) -> None:
    """Mask these values from now on, in addition to earlier ones. Values shorter than six
    characters are not masked.
    """
    long = (value for value in values if len(value) >= _SHORTEST)
    spelled = frozenset(spelled for value in long for spelled in _spellings(value))
    with _turn:
        _note(_told, spelled)
        _known[:] = sorted(frozenset[str]().union(*_told), key=len, reverse=True)


def hide_parameters(given: Iterable[tuple[str, str]]) -> None:
    """Mask these (name, value) pairs of URL parameters from now on, wherever the name stands before
    the value, however short the value is: not everybody who may see an address may use it.
    """
    now = frozenset(given)
    with _turn:
        _note(_told_parameters, now)
        _parameters[:] = [
            (f"{mark}{name}={value}", f"{mark}{name}={HIDDEN}")
            for name, value in frozenset[tuple[str, str]]().union(*_told_parameters)
            for mark in "?&"
        ]


def _note(told: list[frozenset[_T]], now: frozenset[_T]) -> None:
    """Make `now` the latest set of secrets; the oldest sets are forgotten, the first excepted."""
    told[1:] = [each for each in told[1:] if each != now]
    if now not in told:
        told.append(now)
    del told[1 : max(1, len(told) - _KEPT)]


def without_parameters(text: str) -> str:
    """The text with the values of all URL parameters masked."""
    return _IN_QUERY.sub(rf"\g<1>{HIDDEN}", text) if "://" in text else text


def _spellings(value: str) -> Iterator[str]:
    """A secret as it is, and as written in JSON (plain, and as PHP, Go and .NET have it) and in a
    URL.
    """
    yield value
    written = json.dumps(value)[1:-1]
    yield written
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield written.replace("/", "\\/")
    yield written.translate(_GO)
    yield written.replace('\\"', '"').translate(_DOT_NET)
    yield quote(value, safe="", errors="replace")


def names_secret(name: str) -> bool:
    """Whether a variable, header or parameter of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def is_count(value: str) -> bool:
    """Whether a value is a number that may be a count."""
    return value.isdigit() and len(value) < 7


def secret_arguments(arguments: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """(index, where the secret begins, name) of each command-line argument that is or contains a
    secret: `--token VALUE`, `--token=VALUE`, `TOKEN=VALUE`.
    """
    option = ""
    for place, text in enumerate(arguments):
        name, _, value = text.partition("=")
        if value and names_secret(name):
            if not _says_how_many(name, value):
                yield place, len(name) + 1, name
        elif (
            text
            and names_secret(option)
            and not (_OPTION.match(text) or _says_how_many(option, text))
        ):
            yield place, 0, option
        option = text if text.startswith("-") and "=" not in text else ""


def _says_how_many(name: str, value: str) -> bool:
    """Whether a parameter counts tokens or keys, like `--max-tokens 4096`; a password may be
    digits.
    """
    return name.lower().endswith(("tokens", "keys")) and is_count(value)


def looks_random(value: str) -> bool:
    """Whether a part of a URL looks like a key, whatever its name (`appid`, `code`): long, with
    letters and digits, and not made of words.
    """
    return _RANDOM.fullmatch(value) is not None


def redacted(text: str) -> str:
    """The text with configured secrets, bearer tokens, API keys and passwords in URLs masked."""
    for value in _known:
        text = text.replace(value, HIDDEN)
    if "?" in text:
        for given, shown in _parameters:
            text = text.replace(given, shown)
    return _SECRET_TEXT.sub(_without, text)


def redacted_json(text: str) -> str:
    """JSON text, masked like `redacted`, and with the values of members whose names suggest a
    secret masked as well. In a thread it gives way to others, however long the text is.
    """
    if "\\u" in text or "\\/" in text:
        text = _in_pieces(_ESCAPE, _needed, text)
    for value in _known:
        text = text.replace(value, HIDDEN)
    for given, shown in _parameters:
        text = text.replace(given, shown)
    text = _in_pieces(_SECRET_MEMBER, _without_value, text, _end_of_value)
    return _in_pieces(_SECRET_TEXT, _without, text)


def _in_pieces(
    pattern: re.Pattern[str],
    shown: Callable[[re.Match[str]], str],
    text: str,
    end_of: Callable[[re.Match[str]], int] = re.Match.end,
) -> str:
    """Like `pattern.sub(shown, text)`, but searching piece by piece: one search holds the
    interpreter.

    Args:
        pattern: what is looked for.
        shown: what stands in its place.
        text: where.
        end_of: where that ends; at the end of the match or behind it.
    """
    parts: list[str] = []
    done = begin = 0
    size = _PIECE_CHARS
    while begin < len(text):
        end = min(begin + size, len(text))
        cut: int | None = None
        for match in pattern.finditer(text, begin, end):
            if match.end() == end < len(text):
                cut = match.start()
                break
            parts += text[done : match.start()], shown(match)
            done = end_of(match)
            if done > match.end():
                cut = done
                break
        if cut is not None:  # what goes on behind the piece: once more, with more of it
            size = 2 * size if cut == begin else _PIECE_CHARS
            begin = cut
        else:
            size = _PIECE_CHARS
            begin = max(done, end if end == len(text) else end - _OVERLAP_CHARS)
    return "".join((*parts, text[done:]))


def _needed(match: re.Match[str]) -> str:
    """An escape as it is, or the character that it stands for, where that need not be escaped:
    encoders of PHP do so with `/`, those of .NET with `+`, and a secret is looked for as it is.
    """
    said = match[0]
    if said == "\\/":
        return "/"
    if len(said) != _LONG_ESCAPE or said[1] != "u":
        return said
    meant = chr(int(said[2:], 16))
    return meant if meant.isprintable() and meant not in '"\\' else said


def _end_of_value(match: re.Match[str]) -> int:
    """Where the value of a member ends, whatever it holds."""
    if match["within"] is None:
        return match.end()
    depth = 0
    for found in _STRUCTURE.finditer(match.string, match.start("within")):
        mark = found[0]
        depth += (mark in "[{") - (mark in "]}")
        if not depth:
            return found.end()
    return len(match.string)  # which was cut


def _without_value(match: re.Match[str]) -> str:
    return f'{match["name"]}"{HIDDEN}"'


def _without(match: re.Match[str]) -> str:
    kept = match["bearer"] or match["named"] or match["scheme"] or ""
    return f"{kept}{HIDDEN}@" if match["scheme"] else f"{kept}{HIDDEN}"


def secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of everything that `redacted` would mask, in no order; they may overlap."""
    for value in _known:
        at = text.find(value)
        while at >= 0:
            yield at, at + len(value)
            at = text.find(value, at + len(value))
    for match in _SECRET_TEXT.finditer(text):
        kept = match["bearer"] or match["named"] or match["scheme"] or ""
        yield match.start() + len(kept), match.end() - (1 if match["scheme"] else 0)


def redacted_value(name: str, value: Any) -> Any:
    """One value of a log event, masked; lists and mappings are searched, too."""
    if _SECRET_KEY.search(name) and value not in (None, ""):
        return HIDDEN
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {key: redacted_value(str(key), inner) for key, inner in value.items()}  # pyright: ignore
    if isinstance(value, (list, tuple)):
        return [redacted_value("", inner) for inner in value]  # pyright: ignore
    return value
