"""Where a query travels: each item by itself, the first source wins."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace
from multidict import CIMultiDict

from armory.domain.principal import ANONYMOUS
from armory.domain.query import Query
from armory.gateway.queries.carriers import ListRequest, read_list_request, read_mode
from armory.gateway.queries.values import check_names, check_texts
from armory.gateway.requests import ClientRequest
from armory.protocol.errors import RpcError
from armory.testing.front import raws
from tests.unit.gateway.conftest import NotingClient


def context(
    meta: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    url: dict[str, list[str]] | None = None,
) -> ClientRequest:
    return ClientRequest(
        principal=ANONYMOUS,
        client=NotingClient(),
        era="modern",
        version="",
        meta={f"dev.armory/{key}": raw for key, raw in raws(meta or {}).items()},
        headers=CIMultiDict(headers or {}),
        url=url or {},
    )


def test_a_query_of_very_many_values_is_not_opened() -> None:
    """It is refused by what it is, not by how many texts it has."""
    many = context()
    many.meta["dev.armory/query"] = Raw(b"[%b[]]" % (b"[]," * 100_000))  # pyright: ignore[reportIndexIssue]
    with pytest.raises(RpcError, match="unreadable JSON"):
        read_list_request(many, {})


def query_of(asked: ListRequest) -> Query:
    assert asked.query is not None
    return asked.query


def test_where_the_caller_is_reaches_the_query() -> None:
    meta: dict[str, Any] = {"query": "x", "hour": 9, "last_tool": "git__status"}
    url = {"query": ["x"], "hour": ["23"], "last_tool": ["git__log"]}
    headers = {"X-Armory-Query": "x", "X-Armory-Hour": "0", "X-Armory-Last-Tool": "git__diff"}
    found = [
        query_of(read_list_request(asked, {}))
        for asked in (context(meta), context(None, headers), context(None, None, url))
    ]
    assert [(query.hour, query.last_tool) for query in found] == [
        (9, "git__status"),
        (0, "git__diff"),
        (23, "git__log"),
    ]
    for bad in ({"hour": 24}, {"hour": True}, {"hour": "-1"}, {"last_tool": ""}, {"last_tool": 1}):
        with pytest.raises(RpcError, match=next(iter(bad))):
            read_list_request(context({"query": "x", **bad}), {})


def test_nothing_is_nothing() -> None:
    assert read_list_request(context(), {}) == ListRequest()


def test_sources_in_order() -> None:
    meta: dict[str, Any] = {"query": ["a", "b"]}
    params = raws({"query": "p"})
    headers = {"X-Armory-Query": "h%C3%A9%2C, second"}
    url = {"query": ["u", "v"]}
    found = [
        query_of(read_list_request(context(meta, headers, url), params, ("s",))),
        query_of(read_list_request(context(None, headers, url), params, ("s",))),
        query_of(read_list_request(context(None, headers, url), {}, ("s",))),
        query_of(read_list_request(context(None, None, url), {}, ("s",))),
        query_of(read_list_request(context(), {}, ("s",))),
    ]
    assert [(query.source, query.texts) for query in found] == [
        ("meta", ("a", "b")),
        ("params", ("p",)),
        ("header", ("hé,", "second")),
        ("url", ("u", "v")),
        ("set", ("s",)),
    ]


def test_each_item_by_itself() -> None:
    headers = {"X-Armory-Threshold": "0.25", "X-Armory-Servers": "git, time", "x-armory-top-k": "7"}
    url = {
        "query": ["q"],
        "threshold": ["0.9"],
        "ranker": ["lexical"],
        "categories": ["a,b"],
        "top_k": ["9"],
    }
    query = query_of(read_list_request(context({"top_k": 3}, headers, url), {}))
    assert query.texts == ("q",)
    assert (query.threshold, query.top_k, query.ranker) == (0.25, 3, "lexical")
    assert query.servers == {"git", "time"}
    assert query.categories == {"a", "b"}


def test_a_number_without_a_fraction_is_an_integer_however_it_is_written() -> None:
    query = query_of(read_list_request(context({"query": "x", "top_k": 3.0, "hour": 1e1}), {}))
    assert (query.top_k, query.hour) == (3, 10)
    assert isinstance(query.top_k, int)
    for bad in (2.5, 0.0, 1e300, "3.0"):
        with pytest.raises(RpcError, match="top_k"):
            read_list_request(context({"query": "x", "top_k": bad}), {})


def test_filters_that_a_url_repeats_are_one_list() -> None:
    url = {"servers": ["git", "time,mail"], "categories": ["a", "b"], "top_k": ["3", "4"]}
    asked = read_list_request(context(url={"query": ["x"], **url}), {})
    assert (asked.servers, asked.categories) == ({"git", "time", "mail"}, {"a", "b"})
    assert query_of(asked).top_k == 4
    with pytest.raises(RpcError, match="the URL's servers"):
        read_list_request(context(url={"servers": ["git", ""]}), {})


def test_filters_without_a_query() -> None:
    asked = read_list_request(context({"servers": ["git"]}), {})
    assert (asked.query, asked.servers) == (None, {"git"})


@pytest.mark.parametrize(
    ("meta", "headers", "url", "params", "named"),
    [
        ({"query": []}, {}, {}, {}, "query"),
        ({"query": ["a", ""]}, {}, {}, {}, "query"),
        ({"query": {"a": 1}}, {}, {}, {}, "query"),
        ({}, {}, {}, {"query": 5}, "params.query"),
        ({}, {"X-Armory-Query": "%ff"}, {}, {}, "X-Armory-Query"),
        ({}, {"X-Armory-Query": ""}, {}, {}, "X-Armory-Query"),
        ({}, {"X-Armory-Query": "gr\udcf6sse"}, {}, {}, "X-Armory-Query"),
        ({}, {"X-Armory-Servers": "\udcff"}, {}, {}, "X-Armory-Servers"),
        ({"ranker": {"name": "semantic"}}, {}, {}, {}, "ranker"),
        ({"ranker": []}, {}, {}, {}, "ranker"),
        ({}, {"X-Armory-Threshold": "high"}, {}, {}, "X-Armory-Threshold"),
        ({}, {"X-Armory-Top-K": "-1"}, {}, {}, "X-Armory-Top-K"),
        ({}, {}, {"top_k": ["201"]}, {}, "top_k"),
        ({}, {}, {"threshold": ["nan"]}, {}, "threshold"),
        ({"threshold": True}, {}, {}, {}, "threshold"),
        ({"servers": [""]}, {}, {}, {}, "servers"),
        ({"servers": 3}, {}, {}, {}, "servers"),
        ({}, {}, {"ranker": ["x" * 200]}, {}, "ranker"),
        ({}, {}, {"query": ["mail", "\udcff"]}, {}, "the URL's query"),
        ({}, {}, {"last_tool": ["\udcff"]}, {}, "the URL's last_tool"),
    ],
)
def test_bad_values_are_named(
    meta: dict[str, Any],
    headers: dict[str, str],
    url: dict[str, list[str]],
    params: dict[str, Any],
    named: str,
) -> None:
    with pytest.raises(RpcError) as caught:
        read_list_request(context(meta, headers, url), raws(params))
    assert caught.value.code == -32602
    assert named in caught.value.message
    assert named in caught.value.data["parameter"]
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "query has no text"),
        ("  ", "query has no text"),
        (["", " "], "query has no text"),
        (["a", "b", " "], "text 3 of query is empty"),
        (["x" * 8_000, "y"], "query has 8,001 characters"),
    ],
)
def test_what_is_wrong_with_texts_is_said(texts: object, said: str) -> None:
    with pytest.raises(RpcError) as refused:
        check_texts(texts, "query")
    assert str(refused.value) == f"{said}; expected 1 to 8,000 characters together"
    assert refused.value.data == {"parameter": "query"}


def test_unreadable_meta_is_named() -> None:
    broken = replace(context(), meta={"dev.armory/top_k": Raw(b"[" * 100_000)})
    with pytest.raises(RpcError, match="top_k"):
        read_list_request(broken, {})


def test_a_header_says_the_mode_before_the_url_and_others_are_refused() -> None:
    assert read_mode(context()) is None
    assert read_mode(context(headers={"X-Armory-Mode": "raw"}, url={"mode": ["all"]})) == "raw"
    assert read_mode(context(url={"mode": ["search"]})) == "search"
    with pytest.raises(RpcError, match="the URL's mode"):
        read_mode(context(url={"mode": ["everything"]}))
    with pytest.raises(RpcError, match="X-Armory-Mode"):
        read_mode(context(headers={"X-Armory-Mode": "everything"}))
    with pytest.raises(RpcError, match="the URL's threshold"):
        read_list_request(context(url={"query": ["x"], "threshold": ["0_1"]}), {})


def test_a_header_of_several_lines_is_one_list() -> None:
    lines = [("X-Armory-Query", "send%20mail"), ("x-armory-query", "read, write")]
    lines += [("X-Armory-Servers", "mail"), ("X-Armory-Servers", "files")]
    asked = read_list_request(replace(context(), headers=CIMultiDict(lines)), {})
    assert query_of(asked).texts == ("send mail", "read", "write")
    assert asked.servers == {"mail", "files"}
    twice = CIMultiDict([("X-Armory-Top-K", "3"), ("X-Armory-Top-K", "4")])
    with pytest.raises(RpcError, match="X-Armory-Top-K"):
        read_list_request(replace(context(), headers=twice), {})


def test_names_may_be_a_comma_list() -> None:
    assert check_names("a, b", "x") == {"a", "b"}


def test_what_was_sent_is_shown_as_json() -> None:
    def told(name: str, given: Any) -> str:
        with pytest.raises(RpcError) as caught:
            read_list_request(context({"query": "x", name: given}), {})
        return caught.value.message.partition(";")[0]

    assert told("query", None) == "_meta[dev.armory/query] is null"
    assert told("query", ["x", None, 5]) == '_meta[dev.armory/query] is ["x", null, 5]'
    assert told("top_k", True) == "_meta[dev.armory/top_k] is true"
    assert told("ranker", "né") == '_meta[dev.armory/ranker] is "né"'
    no_text = context({"query": "x"}, {"X-Armory-Ranker": "\udcff"})
    with pytest.raises(RpcError) as caught:
        read_list_request(no_text, {})
    assert r'X-Armory-Ranker is "\udcff"' in caught.value.message
