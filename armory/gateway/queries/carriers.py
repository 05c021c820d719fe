"""Reads the query of a request from its carriers, and enforces limits on it.

Owns: reading query, threshold, top_k, filters, ranker and mode from `_meta`, `params.filter`,
`params.query`, headers, URL and the set's own query, each item by itself, the first source wins.
Never imports retrieval: it makes a plain `Query`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, TypeVar, get_args
from urllib.parse import quote, unquote

import msgspec
from msgspec import Raw
from multidict import MultiMapping

from armory.domain.encoding import is_encodable
from armory.domain.query import Query, Source
from armory.gateway.queries.filters import NOTHING, ListFilter, Patterns, read_filter
from armory.gateway.queries.values import (
    check_hour,
    check_names,
    check_ranker,
    check_texts,
    check_threshold,
    check_tool_name,
    check_written_top_k,
    refused,
)
from armory.gateway.requests import ClientRequest
from armory.gateway.settings import GatewaySettings
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.meta import OWN_PREFIX
from armory.protocol.rawjson import few_values, need_value

T = TypeVar("T")
Mode = Literal["search", "all", "raw"]
MODES: tuple[Mode, ...] = get_args(Mode)
_HEADERS = {
    "threshold": "X-Armory-Threshold",
    "top_k": "X-Armory-Top-K",
    "servers": "X-Armory-Servers",
    "categories": "X-Armory-Categories",
    "ranker": "X-Armory-Ranker",
    "hour": "X-Armory-Hour",
    "last_tool": "X-Armory-Last-Tool",
}
_LISTS = frozenset(("servers", "categories"))
"""Repeated in a URL, they are one list, as several lines of a header are."""
_MODE = "X-Armory-Mode"
_FILTER = "params.filter"


@dataclass(frozen=True, slots=True)
class ListRequest:
    """The parameters of a listing.

    Attributes:
        query: the query with everything beside it; None without one.
        mode: an explicit mode, or None.
        servers, categories: filters, also where there is no query.
        names: patterns of exposed names, likewise.
    """

    query: Query | None = None
    mode: Mode | None = None
    servers: frozenset[str] | None = None
    categories: frozenset[str] | None = None
    names: Patterns | None = None

    @property
    def narrowed(self) -> bool:
        """Whether any filter was given."""
        return (self.servers, self.categories, self.names) != (None, None, None)


def read_mode(request: ClientRequest) -> Mode | None:
    """The mode that the header or the URL asks for.

    Raises:
        RpcError: it is none of the three.
    """
    where, text = _MODE, _header(request, _MODE)
    if text is None:
        given = request.url.get("mode")
        where, text = "the URL's mode", given[-1] if given else None
    if text is None:
        return None
    if text not in MODES:
        raise refused(where, text, f"one of {', '.join(MODES)}")
    return text


def raw_by_url(request: ClientRequest) -> bool:
    """Whether the URL asks for the mode `raw`. Headers do not count: clients cache lists by URL."""
    return request.url.get("mode", ("",))[-1] == "raw"


def read_list_request(
    request: ClientRequest,
    params: Mapping[str, Raw],
    set_query: Sequence[str] = (),
    experimental: frozenset[str] = frozenset(),
) -> ListRequest:
    """All parameters that this request carries, from all carriers.

    Args:
        request: `_meta`, headers and URL.
        params: its parameters.
        set_query: what the set asks for where the request does not.
        experimental: the drafts that are on; `filter` reads `params.filter`.

    Raises:
        RpcError: a value does not parse or is out of range (-32602, naming it).
    """
    mode = read_mode(request)
    given = read_filter(params, experimental)
    texts, source = _texts(request, params, set_query, given)
    items = read_query_items(request, given)
    query = None
    if texts is not None:
        query = Query(texts=texts, source=source, user=request.user, **items)
    return ListRequest(query, mode, items["servers"], items["categories"], given.names)


class QueryItems(TypedDict):
    """The parameters that may come with the texts of a query; see `Query`."""

    threshold: float | None
    top_k: int | None
    servers: frozenset[str] | None
    categories: frozenset[str] | None
    ranker: str | None
    hour: int | None
    last_tool: str | None


def read_query_items(request: ClientRequest, given: ListFilter = NOTHING) -> QueryItems:
    """The parameters that this request carries beside the texts; None where it does not say.

    Raises:
        RpcError: a value does not parse or is out of range (-32602, naming it).
    """
    return {
        "threshold": _item(request, "threshold", check_threshold, given),
        "top_k": _item(request, "top_k", check_written_top_k, given),
        "servers": _item(request, "servers", check_names, given),
        "categories": _item(request, "categories", check_names, given),
        "ranker": _item(request, "ranker", check_ranker, given),
        "hour": _item(request, "hour", check_hour, given),
        "last_tool": _item(request, "last_tool", check_tool_name, given),
    }


def check_size(query: Query, settings: GatewaySettings) -> None:
    """Refuse a query that exceeds `server.limits`.

    Raises:
        RpcError: the texts are too long together, or too many tools are asked for.
    """
    length = sum(map(len, query.texts))
    if length > settings.query_chars:
        where = "arguments.query" if query.source in ("tool", "agent") else "query"
        raise RpcError(
            INVALID_PARAMS,
            f"the query has {length:,} characters; server.limits.query_chars allows "
            f"{settings.query_chars:,}",
            {"parameter": where},
        )
    if query.top_k is not None and query.top_k > settings.query_top_k:
        raise RpcError(
            INVALID_PARAMS,
            f"top_k is {query.top_k}; server.limits.query_top_k allows {settings.query_top_k}",
            {"parameter": "top_k"},
        )


def own_query(request: ClientRequest) -> str | None:
    """The text of `_meta[dev.armory/query]`, on any kind of request; None where there is none that
    can be used, or several.
    """
    try:
        there, given = _meta(request, "query")
        texts = check_texts(given, "query") if there else ()
    except RpcError:
        return None
    return texts[0] if len(texts) == 1 else None


def meta_explain(request: ClientRequest) -> bool:
    """`_meta[dev.armory/explain]`, on any kind of request.

    Raises:
        RpcError: it is neither true nor false.
    """
    there, given = _meta(request, "explain")
    if there and not isinstance(given, bool):
        raise refused(f"_meta[{OWN_PREFIX}explain]", given, "true or false")
    return there and given


def _meta(request: ClientRequest, name: str) -> tuple[bool, Any]:
    return _own(request.meta, "_meta", name)


def _own(members: Mapping[str, Raw], where: str, name: str) -> tuple[bool, Any]:
    raw = members.get(OWN_PREFIX + name)
    if raw is None:
        return False, None
    try:
        return True, few_values(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise refused(f"{where}[{OWN_PREFIX}{name}]", "unreadable JSON", "a JSON value") from None


def _texts(
    request: ClientRequest,
    params: Mapping[str, Raw],
    set_query: Sequence[str],
    filter: ListFilter,
) -> tuple[tuple[str, ...] | None, Source]:
    there, given = _meta(request, "query")
    if there:
        return check_texts(given, f"_meta[{OWN_PREFIX}query]"), "meta"
    there, given = _own(filter.vendor, _FILTER, "query")
    if there:
        return check_texts(given, f"{_FILTER}[{OWN_PREFIX}query]"), "params"
    raw = params.get("query")
    if raw is not None:
        return check_texts(need_value(raw, "params.query"), "params.query"), "params"
    header = _header(request, "X-Armory-Query")
    if header is not None:
        return check_texts(
            _percent(header.split(","), "X-Armory-Query"), "X-Armory-Query"
        ), "header"
    url = request.url.get("query")
    if url:
        return check_texts(_readable(url, "the URL's query"), "the URL's query"), "url"
    if set_query:
        return tuple(set_query), "set"
    return None, "meta"


def _header(request: ClientRequest, name: str) -> str | None:
    """A header; several lines of it are one list (RFC 9110 §5.3)."""
    headers = request.headers
    if name in headers and isinstance(headers, MultiMapping):
        return ",".join(headers.getall(name))
    return headers.get(name)


def _percent(parts: list[str], where: str) -> list[str]:
    try:
        found = [unquote(part.strip(), errors="strict") for part in parts]
        "".join(found).encode()  # bytes that are no UTF-8, not even percent-encoded
        return found
    except UnicodeError:
        raise refused(where, ",".join(parts), "percent-encoded UTF-8") from None


def _readable(values: list[str], where: str) -> list[str]:
    if is_encodable("".join(values)):
        return values
    # bytes that are no UTF-8; see `query_parameters` of the HTTP edge
    written = "&".join(quote(value, errors="surrogateescape") for value in values)
    raise refused(where, written, "percent-encoded UTF-8")


def _item(
    request: ClientRequest, name: str, parse: Callable[[Any, str], T], filter: ListFilter
) -> T | None:
    there, given = _meta(request, name)
    if there:
        return parse(given, f"_meta[{OWN_PREFIX}{name}]")
    there, given = _own(filter.vendor, _FILTER, name)
    if there:
        return parse(given, f"{_FILTER}[{OWN_PREFIX}{name}]")
    header = _header(request, _HEADERS[name])
    if header is not None:
        return parse(_percent([header], _HEADERS[name])[0], _HEADERS[name])
    url = request.url.get(name)
    if url:
        where = f"the URL's {name}"
        several = name in _LISTS
        return parse(",".join(_readable(url if several else url[-1:], where)), where)
    return None
