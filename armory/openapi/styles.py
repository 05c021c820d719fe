"""OpenAPI parameter styles for paths, queries, headers and cookies.

Owns: the styles (RFC 6570 and OpenAPI's additions). Does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.parse import quote

import msgspec

from armory.openapi.operation import Parameter
from armory.protocol.headers import HEADER_NAME

_RESERVED = ":/?#[]@!$&'()*+,;="


class BadArguments(Exception):
    """Invalid arguments; the message says which, and what was expected."""


def scalar_text(value: Any) -> str:
    """A value as one text; objects and lists as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def members_of(value: Any) -> list[tuple[str, Any]]:
    """The members of an object without those that are null, as in RFC 6570."""
    members = cast("dict[str, Any]", value).items()
    return [(name, item) for name, item in members if item is not None]


def items_of(items: Any) -> list[Any]:
    """The items of a list without null."""
    found = cast("list[Any]", items) if isinstance(items, list) else [items]
    return [item for item in found if item is not None]


def percent_encoded(text: str) -> str:
    """The text with every character encoded that has a meaning in URLs."""
    return quote(text, safe="")


def in_cookie(parameter: Parameter, value: Any) -> list[str]:
    """Encode a parameter as `name=text`, once or several times.

    Raises:
        BadArguments: a member of an object has a name that no cookie can have.
    """

    def encode(text: str) -> str:
        return quote(text, safe="!#$&'()*+-./:<=>?@[]^_`{|}~")

    found = _form(parameter, value, encode)
    if not all(HEADER_NAME.fullmatch(name) for name, _ in found):
        raise BadArguments(
            f"the cookie parameter {parameter.argument!r} has a member whose name no cookie can "
            "have"
        )
    return [f"{name}={text}" for name, text in found]


def in_path(parameter: Parameter, value: Any) -> str:
    """Encode a parameter for its place in the path.

    Raises:
        BadArguments: nothing of it is left.
    """
    text = _path_text(parameter, value)
    if not text:
        raise BadArguments(f"the path parameter {parameter.argument!r} is empty")
    return text


def _path_text(parameter: Parameter, value: Any) -> str:
    name, explode = percent_encoded(parameter.name), parameter.explode
    if parameter.as_json or not isinstance(value, dict | list):
        text = percent_encoded(scalar_text(value))
        return {"label": f".{text}", "matrix": f";{name}={text}"}.get(parameter.style, text)
    if isinstance(value, list):
        items = [percent_encoded(scalar_text(item)) for item in items_of(value)]
        if parameter.style == "matrix":
            each = "".join(f";{name}={item}" for item in items)
            return each if explode else f";{name}={','.join(items)}"
        if parameter.style == "label":
            return "." + ("." if explode else ",").join(items)
        return ",".join(items)
    joint = "=" if explode else ","
    parts = [
        f"{percent_encoded(k)}{joint}{percent_encoded(scalar_text(v))}"
        for k, v in members_of(value)
    ]
    if parameter.style == "matrix":
        return "".join(f";{part}" for part in parts) if explode else f";{name}={','.join(parts)}"
    if parameter.style == "label":
        return "." + ("." if explode else ",").join(parts)
    return ",".join(parts)


def in_query(parameter: Parameter, value: Any) -> list[str]:
    """Encode a parameter as `name=text`, once or several times."""
    safe = _RESERVED.replace("&", "").replace("#", "").replace("+", "")

    def encode(text: str) -> str:
        return quote(text, safe=safe if parameter.reserved else "")

    if parameter.style == "deepObject" and isinstance(value, dict | list):
        deep = _deep(parameter.name, value, repeat=not parameter.in_body)
        return [f"{percent_encoded(name)}={encode(scalar_text(item))}" for name, item in deep]
    return [f"{percent_encoded(name)}={text}" for name, text in _form(parameter, value, encode)]


def _deep(name: str, value: Any, *, repeat: bool) -> Iterator[tuple[str, Any]]:
    """Names such as `filter[colour]` with their values, at any depth. OpenAPI does not define
    deeper levels or lists: lists get indices, `expand[0]`, like in PHP and at Stripe.

    Args:
        name: of the value.
        value: an object, a list, or what is within one.
        repeat: whether a name that a list of plain values has within an object is repeated instead.
    """
    if isinstance(value, dict):
        for key, item in members_of(value):
            inner = f"{name}[{key}]"
            if repeat and isinstance(item, list) and not _nested(item):
                yield from ((inner, one) for one in items_of(item))
            else:
                yield from _deep(inner, item, repeat=repeat)
    elif isinstance(value, list):
        for place, item in enumerate(items_of(value)):
            yield from _deep(f"{name}[{place}]", item, repeat=repeat)
    else:
        yield name, value


def _nested(items: Any) -> bool:
    return any(isinstance(item, dict | list) for item in items)


def _form(parameter: Parameter, value: Any, encode: Callable[[str], str]) -> list[tuple[str, str]]:
    """Names and percent-encoded values of a parameter with the style `form`."""
    name = parameter.name
    if parameter.as_json or not isinstance(value, dict | list):
        return [(name, encode(scalar_text(value)))]
    joint = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(parameter.style, ",")
    if isinstance(value, list):
        items = [encode(scalar_text(item)) for item in items_of(value)]
        if parameter.explode or not items:
            return [(name, item) for item in items]
        return [(name, joint.join(items))]
    pairs = [(key, encode(scalar_text(item))) for key, item in members_of(value)]
    if parameter.explode or not pairs:
        return pairs
    return [(name, joint.join(f"{encode(key)}{joint}{text}" for key, text in pairs))]


def in_header(parameter: Parameter, value: Any) -> str:
    """Encode a parameter as the value of a header.

    Raises:
        BadArguments: no header can have it.
    """
    if parameter.as_json or not isinstance(value, dict | list):
        text = scalar_text(value)
    elif isinstance(value, list):
        text = ",".join(map(scalar_text, items_of(value)))
    else:
        joint = "=" if parameter.explode else ","
        text = ",".join(f"{key}{joint}{scalar_text(item)}" for key, item in members_of(value))
    if not text.isprintable() or not text.isascii():
        raise BadArguments(
            f"the header parameter {parameter.argument!r} has characters that no header can have"
        )
    return text
