"""The arguments of the meta-tools.

Owns: reading and checking their arguments. Never imports retrieval; calls nothing.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from msgspec import Raw

from armory.domain.query import Query
from armory.gateway.metatools.definitions import MAX_REJECTED
from armory.gateway.queries.carriers import read_query_items
from armory.gateway.queries.values import check_names, check_texts, check_top_k
from armory.gateway.requests import ClientRequest
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.rawjson import (
    brief,
    members_or_none,
    need_value,
    opening_or_none,
    says_nothing,
    text_of,
)
from armory.protocol.scanning.nesting import deeper_than
from armory.protocol.scanning.values import at_once

_DIGEST = re.compile(r"[0-9a-f]{32}")
_BLANKS = " \t\r\n"
_TEXT_BYTES, _TEXT_DEPTH = 64 * 1024, 64
"""How long, and how deep, the text of an object may be that stands where an object is expected."""


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """The arguments of `search_tools` or `find_tools` (`rejected` only for the latter)."""

    texts: tuple[str, ...]
    top_k: int | None
    servers: frozenset[str] | None
    rejected: tuple[str, ...] = ()

    def as_query(self, request: ClientRequest) -> Query:
        """The query; what the arguments leave open is taken from the request's carriers.

        Raises:
            RpcError: something that it carries is out of range.
        """
        items = read_query_items(request)
        items["top_k"] = items["top_k"] if self.top_k is None else self.top_k
        items["servers"] = items["servers"] if self.servers is None else self.servers
        return Query(self.texts, source="tool", user=request.user, **items)


def read_search(params: Mapping[str, Raw]) -> SearchArguments:
    """The arguments of a `search_tools` call.

    Raises:
        RpcError: one is missing or out of range.
    """
    arguments = _arguments(params)
    raw = arguments.get("query")
    if raw is None:
        raise RpcError(
            INVALID_PARAMS,
            "arguments.query is missing; expected what you want to do, in plain words",
            {"parameter": "arguments.query"},
        )
    texts = check_texts(need_value(raw, "arguments.query"), "arguments.query")
    top_k = _optional(arguments, "top_k")
    servers = _optional(arguments, "servers") or None  # models write an empty list for any
    return SearchArguments(
        texts,
        None if top_k is None else check_top_k(top_k, "arguments.top_k"),
        None if servers is None else check_names(servers, "arguments.servers"),
        _digests(_optional(arguments, "rejected")),
    )


def _digests(given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    items = cast("list[object]", given) if isinstance(given, list) else [None]
    digests = tuple(item for item in items if isinstance(item, str) and _DIGEST.fullmatch(item))
    if len(digests) != len(items) or len(items) > MAX_REJECTED:
        raise RpcError(
            INVALID_PARAMS,
            f"arguments.rejected: expected a list of at most {MAX_REJECTED:,} digests, as the "
            "`chunks` of an answer have them",
            {"parameter": "arguments.rejected"},
        )
    return digests


def reading_call(params: Mapping[str, Raw]) -> Generator[None, None, dict[str, Raw]]:
    """The `tools/call` parameters inside a `call_tool` call; parsed in steps, since arguments may
    be large.

    Raises:
        RpcError: no name, or arguments that are no object.
    """
    arguments = yield from _opening_arguments(params)
    name = text_of(arguments, "name")
    if name is None:
        given = "missing" if "name" not in arguments else brief(arguments["name"])
        raise RpcError(
            INVALID_PARAMS,
            f"arguments.name is {given}; expected the tool's exact name",
            {"parameter": "arguments.name"},
        )
    changed = {key: raw for key, raw in params.items() if key not in ("name", "arguments")}
    changed["name"] = arguments["name"]
    inner = arguments.get("arguments")
    if inner is not None and not says_nothing(inner):
        changed["arguments"] = _called_with(inner)
    return changed


def _called_with(inner: Raw) -> Raw:
    """The inner call's arguments: an object, or its JSON text, which models often write."""
    text = inner
    if bytes(memoryview(inner)[:1]) == b'"' and len(memoryview(inner)) <= _TEXT_BYTES:
        text = Raw((text_of({"it": inner}, "it") or "").strip(_BLANKS).encode())
        if deeper_than(bytes(text), _TEXT_DEPTH) or members_or_none(text) is None:
            text = inner
    if bytes(memoryview(text)[:1]) != b"{":  # not opened: it may have very many members
        raise RpcError(
            INVALID_PARAMS,
            f"arguments.arguments is {brief(inner)}; expected an object, the called tool's own "
            "arguments",
            {"parameter": "arguments.arguments"},
        )
    return text


def _arguments(params: Mapping[str, Raw]) -> dict[str, Raw]:
    return at_once(_opening_arguments(params))


def _opening_arguments(params: Mapping[str, Raw]) -> Generator[None, None, dict[str, Raw]]:
    raw = params.get("arguments")
    if raw is None or says_nothing(raw):
        return {}
    opened = yield from opening_or_none(raw)
    if opened is None:
        raise RpcError(
            INVALID_PARAMS,
            f"params.arguments is {brief(raw)}; expected an object",
            {"parameter": "params.arguments"},
        )
    return opened


def _optional(arguments: Mapping[str, Raw], name: str) -> Any:
    raw = arguments.get(name)
    return None if raw is None else need_value(raw, f"arguments.{name}")
