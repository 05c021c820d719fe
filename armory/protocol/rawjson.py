"""JSON that stays bytes: objects are decoded one level at a time.

Owns: the codecs that every room shares, and how much is opened of what somebody sent. Never imports
the messages that are made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw

from armory.protocol.codes import BACKEND, INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.scanning.pieces import in_bytes
from armory.protocol.scanning.taking_apart import (
    TooWide,
    few_items_of,
    few_members,
    named_members,
)
from armory.protocol.scanning.values import at_once

_members = msgspec.json.Decoder(dict[str, Raw])
_items = msgspec.json.Decoder(list[Raw])
_text = msgspec.json.Decoder(str)
_any = msgspec.json.Decoder()
encode = msgspec.json.Encoder().encode
NULL = Raw(b"null")
EMPTY_OBJECT = Raw(b"{}")
_NOTHINGS = (b"null", b"[]")
_SCALAR_BYTES = 1_024
_OPENED_BYTES = 64 * 1024
"""Up to this size anything is decoded: at most 11,000 members, in 2 ms."""
_QUOTE = ord('"')
_MOST_VALUES = 10_000
_NAMED = 64
_LONG_BYTES = 4 * 1024
Path = tuple[str, ...]
_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def members(raw: Raw | bytes) -> dict[str, Raw]:
    """The members of a JSON object, each verbatim.

    Raises:
        msgspec.DecodeError: not an object (or not JSON); `TooWide`: a long one with more than
            `MOST_MEMBERS`.
    """
    if len(memoryview(raw)) <= _OPENED_BYTES:
        return _members.decode(raw)
    return at_once(opening(raw))


def opening(raw: Raw | bytes | bytearray) -> Generator[None, None, dict[str, Raw]]:
    """As `members`, in steps."""
    view = memoryview(raw)
    if len(view) <= _OPENED_BYTES:
        return _members.decode(raw)
    return (yield from few_members(view))


def reading(
    raw: Raw | bytes | bytearray,
    kind: type[_Struct],
    decode: Callable[[bytes], _Struct],
    values: Collection[str],
) -> Generator[None, None, _Struct]:
    """Decode a large message in steps: without its long values, which are put in their places
    verbatim.

    Args:
        raw: the message.
        kind: what it becomes; other members than its fields are left out.
        decode: makes it of JSON in which null stands for those values.
        values: fields that take any JSON, verbatim.

    Raises:
        msgspec.DecodeError: not an object (or not JSON); whatever `decode` raises.
    """
    found = yield from opening_named(raw, kind.__struct_fields__)
    return assembled(found, decode, values)


def opening_named(
    raw: Raw | bytes | bytearray, names: Sequence[str]
) -> Generator[None, None, dict[str, Raw]]:
    """The members of these names of a large object, in steps, however many others it has."""
    try:
        opened = yield from opening(raw)
    except TooWide:
        return (yield from named_members(memoryview(raw), names))
    return {name: opened[name] for name in names if name in opened}


def assembled(
    found: Mapping[str, Raw], decode: Callable[[bytes], _Struct], values: Collection[str]
) -> _Struct:
    """What `decode` makes of these members, of which long `values` stay as they came."""
    long = {name: found[name] for name in values if _is_long(found.get(name))}
    message = decode(encode({**found, **dict.fromkeys(long, NULL)}))
    for name, value in long.items():
        setattr(message, name, value)
    return message


def _is_long(raw: Raw | None) -> bool:
    return raw is not None and len(memoryview(raw)) > _LONG_BYTES


def few_items(raw: Raw | bytes | bytearray, most: int) -> list[Raw]:
    """The items of a JSON array of at most `most`, each verbatim.

    Raises:
        msgspec.DecodeError: not an array (or not JSON); `TooWide`: it has more.
    """
    return at_once(items_in_steps(raw, most))


def items_in_steps(raw: Raw | bytes | bytearray, most: int) -> Generator[None, None, list[Raw]]:
    """As `few_items`, in steps."""
    view = memoryview(raw)
    short = len(view) <= _OPENED_BYTES
    found = _items.decode(raw) if short else (yield from few_items_of(view, most))
    if len(found) > most:
        raise TooWide(f"an array has more than {most:,} items")
    return found


def members_or_none(raw: Raw | None) -> dict[str, Raw] | None:
    """The members of an object; None when it is absent or no object."""
    if raw is None:
        return None
    try:
        return members(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def opening_or_none(raw: Raw | None) -> Generator[None, None, dict[str, Raw] | None]:
    """As `members_or_none`, in steps."""
    if raw is None:
        return None
    try:
        return (yield from opening(raw))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def need_members(raw: Raw) -> dict[str, Raw]:
    """The members of an upstream's answer of which the caller may see only a part.

    Raises:
        RpcError: it is no object, or too wide to be opened: all of it would be shown.
    """
    found = members_or_none(raw)
    if found is None:
        message = "the upstream's answer cannot be looked into: no object, or too many members"
        raise RpcError(BACKEND, message)
    return found


def value(raw: Raw | bytes) -> Any:
    """The JSON value, decoded whole.

    Raises:
        msgspec.DecodeError: the text is no JSON.
    """
    return _any.decode(raw)


def few_values(raw: Raw) -> Any:
    """The JSON value, fully decoded, where a string or a short list belongs.

    Raises:
        msgspec.DecodeError: not JSON; `TooWide`: it has more values than any such list.
    """
    view = memoryview(raw)
    if len(view) > _OPENED_BYTES and view[0] != _QUOTE and bytes(view).count(b",") > _MOST_VALUES:
        raise TooWide(f"it has more than {_MOST_VALUES:,} values")
    return _any.decode(raw)


def scalar(raw: Raw | None) -> Any:
    """A string, number or boolean; None for anything else, and for longer values than the protocol
    has (the sender chooses what stands there).
    """
    if raw is None or len(memoryview(raw)) > _SCALAR_BYTES:
        return None
    try:
        found = _any.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return None if isinstance(found, dict | list) else found


def object_of(raw: Raw | None) -> dict[str, Any]:
    """A JSON object, decoded whole; empty when it is absent or none."""
    if raw is None:
        return {}
    try:
        decoded = _any.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}


def says_nothing(raw: Raw) -> bool:
    """Whether it stands where an object belongs for one without members: null or, as PHP and some
    serializers of C# write an empty one, an empty array.
    """
    view = memoryview(raw)
    return len(view) <= _SCALAR_BYTES and bytes(view).translate(None, b" \t\r\n") in _NOTHINGS


def pack(value: Any) -> Raw:
    """Any JSON-serialisable value (which may contain `Raw`) as JSON."""
    return Raw(encode(value))


def pack_large(members: Mapping[str, Raw]) -> Raw:
    """As `pack`, in a thread: `bytes.join` releases the GIL when it joins only bytes, and more than
    a mebibyte of them.
    """
    parts = [b"{"]
    for name, raw in members.items():
        parts += (encode(name), b":", in_bytes(raw), b",")
    parts[-1 if members else 1 :] = [b"}"]
    return Raw(b"".join(parts))


def text_or_none(raw: Raw | None) -> str | None:
    """The value when it is a string, else None."""
    if raw is None:
        return None
    try:
        return _text.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def text_of(source: Mapping[str, Raw], name: str) -> str | None:
    """The member `name` when it is a string, else None."""
    raw = source.get(name)
    if raw is None:
        return None
    try:  # as `text_or_none`, which would be four calls more in each request
        return _text.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def need_text(params: Mapping[str, Raw], name: str, within: str = "params") -> str:
    """The member `name` of `within`, which must be a string.

    Raises:
        RpcError: it is missing or something else (-32602, naming it).
    """
    raw = params.get(name)
    if raw is None:
        where = f"{within}.{name}"
        raise RpcError(
            INVALID_PARAMS, f"{where} is missing; expected a string", {"parameter": where}
        )
    try:
        return _text.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        where = f"{within}.{name}"
        raise RpcError(
            INVALID_PARAMS, f"{where} is {brief(raw)}; expected a string", {"parameter": where}
        ) from None


def need_value(raw: Raw, where: str) -> Any:
    """The parameter `where`, decoded whole.

    Raises:
        RpcError: it cannot be, as the number 1e400, or has very many values (-32602, naming it).
    """
    try:
        return few_values(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise RpcError(
            INVALID_PARAMS, f"{where} is {brief(raw)}, which cannot be read", {"parameter": where}
        ) from None


def values_at(raw: Raw | None, paths: Iterable[Path]) -> dict[Path, Any]:
    """The decoded values at paths of names in an object of any size; without those that are absent,
    cannot be decoded, or are longer than a header could be.
    """
    found: dict[Path, Any] = {}
    stack = [(raw, [(path, path) for path in paths if path])]
    while stack:
        raw, wanted = stack.pop()
        below: dict[str, list[tuple[Path, Path]]] = {}
        for path, left in wanted:
            below.setdefault(left[0], []).append((path, left[1:]))
        for name, value in _named(raw, [*below]).items():
            if further := [(path, left) for path, left in below[name] if left]:
                stack.append((value, further))
            if len(memoryview(value)) <= _OPENED_BYTES:
                with suppress(msgspec.DecodeError, RecursionError):
                    found |= {path: _any.decode(value) for path, left in below[name] if not left}
    return found


def _named(raw: Raw | None, names: Sequence[str]) -> dict[str, Raw]:
    """The members of these names. The other members of a large object are skipped: decoding them
    takes 2 ms for each MiB, with 64 names ten times as long.
    """
    if raw is None or len(memoryview(raw)) <= _OPENED_BYTES or len(names) > _NAMED:
        opened = members_or_none(raw) or {}
        return {name: opened[name] for name in names if name in opened}
    fields = {f"f{number}": name for number, name in enumerate(names)}
    try:
        kind = msgspec.defstruct("Some", [(f, Raw, NULL) for f in fields], rename=fields)
        found = msgspec.json.decode(raw, type=kind)
    except (ValueError, RecursionError):  # msgspec.DecodeError is one, and of a name with a quote
        return {}
    values = ((name, getattr(found, field)) for field, name in fields.items())
    return {name: value for name, value in values if value is not NULL}


def brief(value: object) -> str:
    """A value for an error message: JSON as it came, cut after 80 characters."""
    raw = memoryview(value) if isinstance(value, Raw) else encode(value)
    text = str(raw[:400], "utf-8", "replace")
    return text if len(text) <= 80 else f"{text[:77]}..."


def excerpt(data: bytes | bytearray) -> str:
    """The beginning of some bytes, JSON or not, printable, for messages and logs."""
    text = data[:120].decode("utf-8", "replace")
    return repr(text) + (" ..." if len(data) > 120 else "")
