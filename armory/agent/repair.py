"""Repair of JSON objects with mistakes.

Owns: the repairs that small models' Action Inputs need. Never imports the parser of steps.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any, cast

Note = Callable[[str], None]

_SMART = str.maketrans({"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'"})
_TRAILING_COMMA = re.compile(r",\s*(?=[}\]])")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_BARE_KEY = re.compile(r"(?<=[{,])\s*([A-Za-z_]\w*)\s*:")
_KEYWORD = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*")
_PAIR = re.compile(r"^[^\S\n]*+[\"']?+(query|top_k)[\"']?+[^\S\n]*+[:=]\s*+(.+)$", re.MULTILINE)
_HALF_KEY = re.compile(r',\s*"(?:[^"\\]|\\.)*$')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|"(?:[^"\\]|\\.)*\\?$|[{}\[\]]', re.DOTALL)
_SEPARATOR_AT_END = re.compile(r"[,:]\s*$")
_KEY_AT_END = re.compile(r',\s*"(?:[^"\\]|\\.)*"$')
_WHOLE_NUMBER = re.compile(r"-?\d{1,9}")
_COMMA_OR_QUOTE = re.compile(r"[,\"']")
_MAX_CHARS = 20_000


def parse_object(text: str, note: Note) -> dict[str, Any] | None:
    """The first JSON object in a text, repaired if needed; None when there is none."""
    found = _object(text, note)
    try:  # half of a character can be sent to nobody; nor can what only Python has: `...`, NaN
        written = json.dumps(found, ensure_ascii=False, allow_nan=False)
        whole = written.encode("utf-8", "replace")
        return json.loads(whole)
    except (TypeError, ValueError, RecursionError):
        return None


def _object(text: str, note: Note) -> dict[str, Any] | None:
    start = text.find("{")
    if start < 0:
        return None
    written = text[start : start + _MAX_CHARS]
    try:
        found, end = json.JSONDecoder().raw_decode(written)
    except (ValueError, RecursionError):
        pass
    else:
        if written[end:].strip():
            note("text after the JSON left out")
        return cast("dict[str, Any]", found) if isinstance(found, dict) else None
    for repaired, what in _repairs(written):
        try:
            found, _ = json.JSONDecoder(strict=False).raw_decode(repaired)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and found:
            note(what)
            return cast("dict[str, Any]", found)
    # of bare keys with single quotes, as in JavaScript, Python's is what the tidied text is
    return _python(written, note) or _python(_tidied(written.translate(_SMART)), note)


def parse_arguments(text: str, note: Note) -> dict[str, Any] | None:
    """An Action Input as an object.

    Beside objects it takes a JSON string that holds an object, `("text", top_k=3)`, `["text"]`,
    `query: text` lines, and a bare text, which is the query.
    """
    written = text.strip().strip("`").strip()
    if "{" in written:
        inner = _unquoted(written)
        if inner is not None:
            note("an object inside a JSON string")
            return parse_object(inner, note)
        return parse_object(written, note)
    pairs = _PAIR.findall(written)
    if pairs:
        note("key and value lines instead of JSON")
        return {key: _value(value.rstrip().removesuffix(",")) for key, value in pairs}
    first = written.splitlines()[0].strip() if written else ""
    if first.startswith(("(", "[")):
        note("call brackets instead of JSON")
        inside = first[1:2000].rstrip()
        return _call((inside[:-1] if inside.endswith((")", "]")) else inside).strip())
    bare = first.strip("\"'")
    if not bare:
        return None
    note("a bare text taken as the query")
    return {"query": bare}


def _unquoted(text: str) -> str | None:
    if not text.startswith('"'):
        return None
    try:
        inner, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return None
    return inner if isinstance(inner, str) and "{" in inner else None


def _repairs(written: str) -> list[tuple[str, str]]:
    plain = written.translate(_SMART)
    tidy = _tidied(plain)
    return [
        (plain, "typographic quotes or line breaks in the JSON put right"),
        (tidy, "trailing commas or bare keys in the JSON put right"),
        (_close(plain), "an unfinished JSON object closed"),
        (_close(tidy), "an unfinished JSON object closed"),
        (_close(_HALF_KEY.sub("", tidy)), "an unfinished JSON object closed"),
    ]


def _tidied(text: str) -> str:
    """The text without trailing commas, and with bare keys quoted; strings are unchanged."""
    parts: list[str] = []
    at = 0
    for string in _STRING.finditer(text):
        parts += [_outside(text[at : string.start()]), string.group()]
        at = string.end()
    return "".join((*parts, _outside(text[at:])))


def _outside(text: str) -> str:
    return _BARE_KEY.sub(r' "\1":', _TRAILING_COMMA.sub("", text))


def _close(text: str) -> str:
    """The text up to its last complete value, with open brackets closed in order."""
    stack: list[str] = []
    unfinished = False
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in "{[":
            stack.append("}" if token == "{" else "]")
        elif token in "}]":
            if not stack or stack[-1] != token:
                return text[: match.start()] + "".join(reversed(stack))
            stack.pop()
            if not stack:
                return text[: match.end()]
        else:
            unfinished = len(token) == 1 or not token.endswith('"') or token.endswith('\\"')
    closed = text.rstrip("\\") + '"' if unfinished else text.rstrip()
    closed = _SEPARATOR_AT_END.sub("", closed)
    if not unfinished:
        # A key without its value goes, with the comma before it.
        closed = _KEY_AT_END.sub("", closed)
    return closed + "".join(reversed(stack))


def _python(written: str, note: Note) -> dict[str, Any] | None:
    end = written.rfind("}")
    try:
        found = ast.literal_eval(written[: end + 1])
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    if not isinstance(found, dict):
        return None
    note("a Python literal instead of JSON")
    return {str(key): value for key, value in cast("dict[Any, Any]", found).items()}


def _call(inside: str) -> dict[str, Any]:
    """`"deploy", top_k=3` as an object; the first text without a name is the query."""
    found: dict[str, Any] = {}
    for part in _parts(inside):
        keyword = _KEYWORD.match(part.strip())
        value = _value(part.strip()[keyword.end() :] if keyword else part)
        if keyword:
            found[keyword[1]] = value
        elif "query" not in found:
            found["query"] = value
        elif isinstance(value, str) and isinstance(found["query"], str):
            # An unquoted query with a comma in it.
            found["query"] = f"{found['query']}, {value}"
        else:
            found.setdefault("top_k", value)
    return found


def _parts(inside: str) -> list[str]:
    """The parts between commas that are outside quotes."""
    parts: list[str] = []
    end, even = len(inside), True
    for match in reversed(list(_COMMA_OR_QUOTE.finditer(inside))):
        if match.group() != ",":
            even = not even
        elif even:
            parts.append(inside[match.end() : end])
            end = match.start()
    return [inside[:end], *reversed(parts)]


def _value(text: str) -> Any:
    bare = text.strip()
    return int(bare) if _WHOLE_NUMBER.fullmatch(bare) else bare.strip("\"'")
