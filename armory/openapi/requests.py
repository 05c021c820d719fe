"""The HTTP request that calling an operation with some arguments means.

Owns: writing parameters in their styles, and bodies. What cannot be written is refused before
anything is sent. Does no I/O.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, unquote

import msgspec

from armory.openapi.media import FORM, MULTIPART, is_json, is_text
from armory.openapi.operation import Body, Operation, Parameter

_RESERVED = ":/?#[]@!$&'()*+,;="
_DECODED = 5
"""How often servers and proxies may decode a path on its way."""


class BadArguments(Exception):
    """The arguments do not make a request; says which, and what was expected."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is sent.

    Attributes:
        method: HTTP method.
        target: path and query below the base URL, encoded.
        headers: of this call alone.
        body: or None.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None


def request_for(operation: Operation, arguments: Mapping[str, Any]) -> HttpRequest:
    """The request of one call.

    Raises:
        BadArguments: one is missing, is not known, or cannot be written where it belongs.
    """
    _check(operation, arguments)
    path, query = _literal(operation.path), list[str]()
    headers, cookies = dict[str, str](), list[str]()
    for parameter in operation.parameters:
        value = arguments.get(parameter.argument)
        if value is None:
            continue
        if parameter.place == "path":
            path = path.replace(_literal(f"{{{parameter.name}}}"), _in_path(parameter, value))
        elif parameter.place == "query":
            query += _in_query(parameter, value)
        elif parameter.place == "header":
            headers[parameter.name] = _in_header(parameter, value)
        else:
            cookies += [f"{name}={text}" for name, text in _form(parameter, value, _cookie)]
    if _leaves(path):
        raise BadArguments(
            "a path parameter has a part that is '.' or '..', which would lead to another path"
        )
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    body = None
    if operation.body is not None and arguments.get(operation.body.argument) is not None:
        kind, body = _body(operation.body, arguments[operation.body.argument])
        headers["Content-Type"] = kind
    target = path + (f"?{'&'.join(query)}" if query else "")
    return HttpRequest(operation.method, target, headers, body)


def _leaves(path: str) -> bool:
    """Whether a server might take it for another path: some decode first and then look at parts,
    some decode what a proxy in front has decoded, and some go by backslashes, too.
    """
    for _ in range(_DECODED):
        path, encoded = unquote(path), path
        if path == encoded:
            break
    return any(part in (".", "..") for part in path.replace("\\", "/").split("/"))


def _literal(template: str) -> str:
    return quote(template, safe="/{}:@!$&'()*+,;=~%")


def _check(operation: Operation, arguments: Mapping[str, Any]) -> None:
    known = {parameter.argument for parameter in operation.parameters}
    if operation.body is not None:
        known.add(operation.body.argument)
    unknown = sorted(arguments.keys() - known)
    if unknown:
        takes = ", ".join(sorted(known)) or "no arguments"
        raise BadArguments(f"there is no argument {unknown[0][:80]!r}; it takes {takes}")
    missing = sorted(name for name in operation.required if arguments.get(name) is None)
    if missing:
        raise BadArguments(f"the argument {missing[0]!r} is missing")


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """The members of an object; those that are null are not there, as in RFC 6570."""
    members = cast("dict[str, Any]", value).items()
    return [(name, item) for name, item in members if item is not None]


def _each(items: Any) -> list[Any]:
    """A value as a list, without what is null."""
    found = cast("list[Any]", items) if isinstance(items, list) else [items]
    return [item for item in found if item is not None]


def _encoded(text: str) -> str:
    return quote(text, safe="")


def _cookie(text: str) -> str:
    return quote(text, safe="!#$&'()*+-./:<=>?@[]^_`{|}~")


def _in_path(parameter: Parameter, value: Any) -> str:
    text = _path_text(parameter, value)
    if not text:
        raise BadArguments(f"the path parameter {parameter.argument!r} is empty")
    return text


def _path_text(parameter: Parameter, value: Any) -> str:
    name, explode = _encoded(parameter.name), parameter.explode
    if parameter.as_json or not isinstance(value, dict | list):
        text = _encoded(_scalar(value))
        return {"label": f".{text}", "matrix": f";{name}={text}"}.get(parameter.style, text)
    if isinstance(value, list):
        items = [_encoded(_scalar(item)) for item in _each(value)]
        if parameter.style == "matrix":
            each = "".join(f";{name}={item}" for item in items)
            return each if explode else f";{name}={','.join(items)}"
        if parameter.style == "label":
            return "." + ("." if explode else ",").join(items)
        return ",".join(items)
    joint = "=" if explode else ","
    parts = [f"{_encoded(k)}{joint}{_encoded(_scalar(v))}" for k, v in _pairs(value)]
    if parameter.style == "matrix":
        return "".join(f";{part}" for part in parts) if explode else f";{name}={','.join(parts)}"
    if parameter.style == "label":
        return "." + ("." if explode else ",").join(parts)
    return ",".join(parts)


def _in_query(parameter: Parameter, value: Any) -> list[str]:
    safe = _RESERVED.replace("&", "").replace("#", "").replace("+", "")

    def encode(text: str) -> str:
        return quote(text, safe=safe if parameter.reserved else "")

    if parameter.style == "deepObject" and isinstance(value, dict | list):
        deep = _deep(parameter.name, value, repeat=not parameter.in_body)
        return [f"{_encoded(name)}={encode(_scalar(item))}" for name, item in deep]
    return [f"{_encoded(name)}={text}" for name, text in _form(parameter, value, encode)]


def _deep(name: str, value: Any, *, repeat: bool) -> Iterator[tuple[str, Any]]:
    """Names such as `filter[colour]` with their values, as deep as they go. OpenAPI says nothing of
    what lies deeper, nor of lists: these have indices, `expand[0]`, as PHP and Stripe have them.

    Args:
        name: of the value.
        value: an object, a list, or what is within one.
        repeat: whether a name that a list of plain values has within an object is repeated instead.
    """
    if isinstance(value, dict):
        for key, item in _pairs(value):
            inner = f"{name}[{key}]"
            if repeat and isinstance(item, list) and not _nested(item):
                yield from ((inner, one) for one in _each(item))
            else:
                yield from _deep(inner, item, repeat=repeat)
    elif isinstance(value, list):
        for place, item in enumerate(_each(value)):
            yield from _deep(f"{name}[{place}]", item, repeat=repeat)
    else:
        yield name, value


def _nested(items: Any) -> bool:
    return any(isinstance(item, dict | list) for item in items)


def _form(parameter: Parameter, value: Any, encode: Callable[[str], str]) -> list[tuple[str, str]]:
    """Names and encoded values of what travels as a form does."""
    name = parameter.name
    if parameter.as_json or not isinstance(value, dict | list):
        return [(name, encode(_scalar(value)))]
    joint = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(parameter.style, ",")
    if isinstance(value, list):
        items = [encode(_scalar(item)) for item in _each(value)]
        if parameter.explode or not items:
            return [(name, item) for item in items]
        return [(name, joint.join(items))]
    pairs = [(key, encode(_scalar(item))) for key, item in _pairs(value)]
    if parameter.explode or not pairs:
        return pairs
    return [(name, joint.join(f"{encode(key)}{joint}{text}" for key, text in pairs))]


def _in_header(parameter: Parameter, value: Any) -> str:
    if parameter.as_json or not isinstance(value, dict | list):
        text = _scalar(value)
    elif isinstance(value, list):
        text = ",".join(map(_scalar, _each(value)))
    else:
        joint = "=" if parameter.explode else ","
        text = ",".join(f"{key}{joint}{_scalar(item)}" for key, item in _pairs(value))
    if not text.isprintable() or not text.isascii():
        raise BadArguments(
            f"the header parameter {parameter.argument!r} has characters that no header can have"
        )
    return text


def _body(body: Body, value: Any) -> tuple[str, bytes]:
    """Content type and bytes of a body."""
    if is_json(body.media_type):
        return body.media_type, msgspec.json.encode(value)
    if body.media_type in (FORM, MULTIPART):
        if not isinstance(value, dict):
            raise BadArguments(f"the argument {body.argument!r} is no object")
        if body.media_type == FORM:
            texts = [text for name, item in _pairs(value) for text in _in_form(body, name, item)]
            return FORM, "&".join(texts).encode()
        parts = [(name, part) for name, item in _pairs(value) for part in _parts(body, name, item)]
        return _multipart(body, parts)
    if not isinstance(value, str):
        raise BadArguments(f"the argument {body.argument!r} is no text")
    if is_text(body.media_type):
        return f"{body.media_type}; charset=utf-8", value.encode()
    return body.media_type, _bytes_of(value, body.argument)


def _in_form(body: Body, name: str, value: Any) -> list[str]:
    """One member of a form, as the description says; else each item by itself, objects as JSON."""
    said = body.members.get(name)
    if said is None or not said.style:
        return [f"{_encoded(name)}={_encoded(_scalar(item))}" for item in _each(value)]
    member = Parameter(
        name, name, "query", said.style, said.explode, reserved=said.reserved, in_body=True
    )
    return _in_query(member, value)


def _parts(body: Body, name: str, value: Any) -> list[Any]:
    """What of one member becomes a part: each item of a list, unless all of it is JSON."""
    said = body.members.get(name)
    return [value] if said is not None and is_json(said.media_type) else _each(value)


def _multipart(body: Body, members: list[tuple[str, Any]]) -> tuple[str, bytes]:
    boundary = f"armory-{secrets.token_hex(16)}"
    parts: list[bytes] = []
    for name, item in members:
        shown = quote(name, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~")
        head = f'Content-Disposition: form-data; name="{shown}"'
        said = body.members.get(name)
        kind = "" if said is None else said.media_type
        if name in body.binary:
            data = _bytes_of(item, name)
            head += f'; filename="{shown}"'
            kind = kind or "application/octet-stream"
        elif isinstance(item, dict | list) or (is_json(kind) and not isinstance(item, str)):
            data = msgspec.json.encode(item)
            kind = kind or "application/json"
        else:
            data = _scalar(item).encode()
        if kind:
            head += f"\r\nContent-Type: {kind}"
        parts.append(f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n")
    end = f"--{boundary}--\r\n".encode()
    return f"{MULTIPART}; boundary={boundary}", b"".join([*parts, end])


def _bytes_of(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadArguments(f"{where!r} is no base64 text") from None
