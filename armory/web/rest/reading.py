"""Reads and validates the path, the query parameters and the body of a request.

Owns: reading them into models, and what is said of those that do not fit. Never knows who asks, nor
what for.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, get_args
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web
from msgspec import Raw
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from armory.domain.encoding import is_encodable
from armory.domain.expectations import MAPPING, expectation
from armory.protocol.bodies import DepthCheck
from armory.protocol.errors import Malformed
from armory.protocol.rawjson import opening
from armory.tasks import step_by_step
from armory.web.rest.problems import Problem
from armory.web.rest.routes import Route
from armory.web.rest.shapes import PATTERNS

_LONGEST_PATH_PART = 200
_MOST_VALUES = 10_000
"""Values in a body on routes that are not for administrators alone: validation collects the errors
of all of them."""
_JOINED_APART_BYTES = 1 << 20
"""Joined in a thread from this size on: it lets go of the interpreter meanwhile."""
_SHOWN_CHARS = 100


def path_part(name: str, value: str) -> str:
    """A decoded part of the path.

    Raises:
        Problem: it is empty, too long, or cannot be shown.
    """
    if not 1 <= len(value) <= _LONGEST_PATH_PART or not value.isprintable():
        raise Problem(
            422,
            "invalid_request",
            f"{name} in the path: expected 1 to {_LONGEST_PATH_PART} printable characters",
            parameter=name,
        )
    return value


def read_params(model: type[BaseModel], request: web.Request) -> BaseModel:
    """The parameters of the URL.

    Raises:
        Problem: one is there twice, is no text, or does not fit.
    """
    given: dict[str, Any] = {}
    written = request.rel_url.raw_query_string
    for name, value in parse_qsl(written, keep_blank_values=True, errors="surrogateescape"):
        if name in given:
            raise Problem(422, "invalid_request", "given more than once", parameter=_short(name))
        if not is_encodable(name + value):
            message = f"{_short(name)}: expected percent-encoded UTF-8"
            raise Problem(422, "invalid_request", message, parameter=_short(name))
        given[name] = value
    return _validated(model, given)


async def receive_body(route: Route, request: web.Request, limit: int, depth: int) -> bytes | None:
    """Read the body, refusing it at the first part that breaks a rule; None where the route takes
    none.

    Args:
        route: what it is for.
        request: whose body.
        limit: bytes.
        depth: levels of nesting.

    Raises:
        Problem: it is not said to be JSON, too large, nested too deep, or holds too many values.
    """
    if route.body is None:
        return None
    if request.content_type != "application/json":
        raise Problem(
            415,
            "unsupported_content_type",
            f"Content-Type is {request.content_type!r}; expected application/json",
        )
    if request.content_length is not None and request.content_length > limit:
        raise _too_large(limit)
    counted = route.access != "admin" and not route.verbatim
    nesting = DepthCheck(depth)
    parts: list[bytes] = []
    size = values = 0
    while part := await request.content.readany():
        parts.append(part)
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        _check_depth(nesting, part)
        values += part.count(b",") if counted else 0
        if values > _MOST_VALUES:
            message = f"the body has more than {_MOST_VALUES:,} values"
            raise Problem(422, "invalid_request", message, parameter="body")
        if not request.content.is_eof():
            await asyncio.sleep(0)  # the next part may be there already, above all of a packed body
            if request.transport is None:  # aiohttp would take it for a defect
                raise ConnectionResetError("the connection ended within the body of a request")
    joined = asyncio.to_thread(b"".join, parts) if size > _JOINED_APART_BYTES else None
    body = b"".join(parts) if joined is None else await joined
    if (told := getattr(request.protocol, "understood", None)) is not None:
        told()  # it need not be held for as long as it is served
    return body


def _too_large(limit: int) -> Problem:
    return Problem(413, "body_too_large", f"the body is over {limit:,} bytes")


def _check_depth(nesting: DepthCheck, part: bytes) -> None:
    try:
        for _ in nesting.feed(part):
            pass
    except Malformed as error:
        raise Problem(400, "malformed_json", error.message) from None


async def read_body(route: Route, data: bytes | None) -> BaseModel | dict[str, Raw] | None:
    """Parse the body; None where the route takes none.

    Args:
        route: what it is for; of a `verbatim` one only the members' names are checked.
        data: what was received.

    Raises:
        Problem: it is no JSON, or does not fit.
    """
    if route.body is None or data is None:
        return None
    try:
        if route.verbatim:
            return await _known_members(route.body, data)
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "malformed_json", f"the body is not JSON ({error})") from None
    return _validated(route.body, value, strict=True)


async def _known_members(model: type[BaseModel], data: bytes) -> dict[str, Raw]:
    if not data.isascii():
        data.decode()  # what passes as it came is checked here
    found = await step_by_step(opening(data))
    for name in found:
        if name not in model.model_fields:
            known = ", ".join(model.model_fields)
            message = f"{_short(name)}: is not known here; known: {known}"
            raise Problem(422, "invalid_request", message, parameter=_short(name))
    return found


def _validated(model: type[BaseModel], value: object, *, strict: bool = False) -> BaseModel:
    """Validate a value; `strict` where it comes from JSON, which has types of its own: no string
    passes for a number there, nor "no" for false.
    """
    try:
        return model.model_validate(value, strict=strict)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(_short(str(part)) for part in first["loc"]) or "body"
        message = f"{where}: {_validation_message(model, first)}"
        raise Problem(422, "invalid_request", message, parameter=where) from None


def _model_at(model: type[BaseModel], member: str) -> type[BaseModel] | None:
    """What a member is, where that is a model, or may be one; None: it is something else."""
    field = model.model_fields.get(member)
    kinds = () if field is None else (field.annotation, *get_args(field.annotation))
    return next((it for it in kinds if isinstance(it, type) and issubclass(it, BaseModel)), None)


def _validation_message(model: type[BaseModel], error: ErrorDetails) -> str:
    """What is wrong, the value that came, and what is expected."""
    if error["type"] == "missing":
        return "is needed and missing"
    if error["type"] == "extra_forbidden":
        for part in error["loc"][:-1]:
            model = _model_at(model, str(part)) or model
        return f"is not known here; known: {', '.join(model.model_fields)}"
    given = json.dumps(error["input"], default=str)[:_SHOWN_CHARS]
    wanted = expectation(error["type"], error.get("ctx", {}), error["input"], PATTERNS)
    if wanted == MAPPING:
        wanted = "a JSON object"
    if wanted is None:  # a check of Armory's own, which says what it found
        return f"{error['msg'].removeprefix('Value error, ')}; it is {_short(given)}"
    return f"expected {wanted}; it is {_short(given)}"


def _short(name: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in name[:_SHOWN_CHARS])
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
