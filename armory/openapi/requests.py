"""The HTTP request that calling an operation with some arguments means.

Owns: writing parameters in their styles, and bodies. What cannot be written is refused before
anything is sent. Does no I/O.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, unquote

import msgspec

from armory.openapi.media import FORM, MULTIPART, is_json, is_text
from armory.openapi.operations import Body, Operation, Parameter

_RESERVED = ":/?#[]@!$&'()*+,;="
_DECODED = 5
"""So often a path may be decoded on its way."""


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
    return list(cast("dict[str, Any]", value).items())


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
        items = [_encoded(_scalar(item)) for item in cast("list[Any]", value)]
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

    if parameter.style == "deepObject" and isinstance(value, dict):
        return [
            f"{_encoded(f'{parameter.name}[{key}]')}={encode(_scalar(item))}"
            for key, items in _pairs(value)
            for item in (cast("list[Any]", items) if isinstance(items, list) else [items])
        ]
    return [f"{_encoded(name)}={text}" for name, text in _form(parameter, value, encode)]


def _form(parameter: Parameter, value: Any, encode: Callable[[str], str]) -> list[tuple[str, str]]:
    """Names and encoded values of what travels as a form does."""
    name = parameter.name
    if parameter.as_json or not isinstance(value, dict | list):
        return [(name, encode(_scalar(value)))]
    joint = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(parameter.style, ",")
    if isinstance(value, list):
        items = [encode(_scalar(item)) for item in cast("list[Any]", value)]
        return (
            [(name, item) for item in items] if parameter.explode else [(name, joint.join(items))]
        )
    pairs = [(key, encode(_scalar(item))) for key, item in _pairs(value)]
    if parameter.explode:
        return pairs
    return [(name, joint.join(f"{encode(key)}{joint}{text}" for key, text in pairs))]


def _in_header(parameter: Parameter, value: Any) -> str:
    if parameter.as_json or not isinstance(value, dict | list):
        text = _scalar(value)
    elif isinstance(value, list):
        text = ",".join(map(_scalar, cast("list[Any]", value)))
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
        members = [
            (name, item)
            for name, items in _pairs(value)
            for item in (cast("list[Any]", items) if isinstance(items, list) else [items])
        ]
        if body.media_type == FORM:
            parts = (f"{_encoded(name)}={_encoded(_scalar(item))}" for name, item in members)
            return FORM, "&".join(parts).encode()
        return _multipart(body, members)
    if not isinstance(value, str):
        raise BadArguments(f"the argument {body.argument!r} is no text")
    if is_text(body.media_type):
        return f"{body.media_type}; charset=utf-8", value.encode()
    return body.media_type, _bytes_of(value, body.argument)


def _multipart(body: Body, members: list[tuple[str, Any]]) -> tuple[str, bytes]:
    boundary = f"armory-{secrets.token_hex(16)}"
    parts: list[bytes] = []
    for name, item in members:
        shown = quote(name, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~")
        head = f'Content-Disposition: form-data; name="{shown}"'
        if name in body.binary:
            data = _bytes_of(item, name)
            head += f'; filename="{shown}"\r\nContent-Type: application/octet-stream'
        elif isinstance(item, dict | list):
            data = msgspec.json.encode(item)
            head += "\r\nContent-Type: application/json"
        else:
            data = _scalar(item).encode()
        parts.append(f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n")
    end = f"--{boundary}--\r\n".encode()
    return f"{MULTIPART}; boundary={boundary}", b"".join([*parts, end])


def _bytes_of(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadArguments(f"{where!r} is no base64 text") from None
