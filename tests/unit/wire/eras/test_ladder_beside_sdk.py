"""What is refused, beside the SDK's own servers: the same requests, with the same codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from mcp.server.request_state import AESGCMRequestStateCodec
from mcp.shared.inbound import (
    InboundLadderRejection,
    classify_inbound_request,
    decode_header_value,
    find_duplicated_routing_header,
    find_invalid_x_mcp_header,
    validate_mcp_param_headers,
)
from multidict import CIMultiDict

from armory.protocol.headers import annotation_problem, header_text
from armory.protocol.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from armory.protocol.versions import MODERN_VERSIONS
from armory.testing.front import raws
from armory.wire.eras.inbound import refusal
from armory.wire.eras.mismatch import param_refusal, repeated
from armory.wire.interaction.sealing import Seals
from armory.wire.methods import named_parameter

VERSION = MODERN_VERSIONS[-1]
SECRET = b"s" * 32
names = st.sampled_from(("x", "y", "é", "=?base64?w6k=?=", "=?base64?w6l=?=", "=?base64?"))
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from((1.0, 1.5, 2.0)), names
)
metas = st.fixed_dictionaries(
    {},
    optional={
        PROTOCOL_VERSION: st.sampled_from((VERSION, "2025-11-25", "2031-01-01", 3, None)),
        CLIENT_CAPABILITIES: st.just({}),
    },
)
methods = st.sampled_from(("tools/call", "prompts/get", "resources/read", "tools/list", "no/such"))
header_sets = st.fixed_dictionaries(
    {},
    optional={
        "mcp-protocol-version": st.sampled_from((VERSION, "2025-11-25", "2031-01-01")),
        "mcp-method": methods,
        "mcp-name": names,
    },
)
members = st.fixed_dictionaries({}, optional={"name": scalars, "uri": scalars})


@given(methods, members, metas, st.none() | header_sets)
@example(
    "resources/read",
    {"uri": False},
    {PROTOCOL_VERSION: VERSION, CLIENT_CAPABILITIES: {}},
    {"mcp-protocol-version": VERSION, "mcp-method": "resources/read"},
)
def test_the_envelope_and_the_headers(
    method: str, params: dict[str, Any], meta: dict[str, Any], headers: dict[str, str] | None
) -> None:
    theirs = classify_inbound_request(
        {"method": method, "params": {**params, "_meta": meta}},
        headers=headers,
        supported_modern_versions=MODERN_VERSIONS,
    )
    version = meta.get(PROTOCOL_VERSION)
    text = version if isinstance(version, str) else None
    body, sent = raws({**params, "_meta": meta}), None if headers is None else CIMultiDict(headers)
    ours = refusal(method, text, body, raws(meta), named_parameter(method), sent)
    expected = (theirs.code, theirs.data) if isinstance(theirs, InboundLadderRejection) else None
    assert expected == (None if ours is None else (ours.code, ours.data))


properties = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(("string", "integer", "boolean", "number", ["string"])),
            "x-mcp-header": st.sampled_from(("A", "a", "B", "", "a b", 3)),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(("a", "b", "a.b")), inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "$defs": st.dictionaries(st.just("d"), inner, max_size=1),
            "x-mcp-header": st.just({}),
            "default": inner,
        },
    ),
    max_leaves=6,
)


@given(properties)
def test_annotations_are_judged_as_the_sdk_judges_them(schema: Mapping[str, Any]) -> None:
    theirs = find_invalid_x_mcp_header(schema)
    assert (annotation_problem(schema) is None) == (theirs is None)


leaves = st.fixed_dictionaries(
    {
        "type": st.sampled_from(("string", "integer", "boolean")),
        "x-mcp-header": st.sampled_from("AB"),
    }
)
nested = st.fixed_dictionaries({"properties": st.fixed_dictionaries({"c": leaves})})
annotated = st.dictionaries(st.sampled_from("ab"), leaves | nested)
values = st.one_of(scalars, st.dictionaries(st.just("c"), scalars), st.just([1]))
sent_texts = st.sampled_from(
    ("x", "1", "1.0", "1.5", "01", "true", "=?base64?eA==?=", "=?base64?!?=")
)


@given(
    annotated,
    st.dictionaries(st.sampled_from("ab"), values),
    st.lists(st.tuples(st.sampled_from(("Mcp-Param-A", "mcp-param-b")), sent_texts), max_size=3),
)
def test_mirrored_parameters(
    found: dict[str, Any], arguments: dict[str, Any], sent: list[tuple[str, str]]
) -> None:
    schema, headers = {"properties": found}, CIMultiDict(sent)
    theirs = validate_mcp_param_headers(schema, arguments, headers)
    ours = param_refusal(schema, raws({"arguments": arguments}), headers)
    assert (ours is None) == (theirs is None)


@given(st.text() | st.text("=?base64ABCw6k", max_size=24).map(lambda text: f"=?base64?{text}?="))
def test_header_texts(value: str) -> None:
    assert header_text(value) == decode_header_value(value)


@given(st.lists(st.sampled_from(("Mcp-Name", "mcp-name", "Mcp-Method", "Accept")), max_size=3))
def test_headers_that_come_twice(sent: list[str]) -> None:
    lines = [(name, "x") for name in sent]
    assert (repeated(CIMultiDict(lines)) is None) == (find_duplicated_routing_header(lines) is None)


def test_seals_are_those_of_the_sdk() -> None:
    theirs, ours = AESGCMRequestStateCodec([SECRET]), Seals([b"t" * 32, SECRET])
    assert ours.unseal(theirs.seal(b"state")) == b"state"
    assert AESGCMRequestStateCodec([b"t" * 32]).unseal(ours.seal(b"state")) == b"state"
