"""Every parser of foreign bytes, fed what nobody would send: it answers, or fails as it says.

Seeds are the files in `corpus`, to which what was ever found belongs; Hypothesis changes them.
`ARMORY_FUZZ_EXAMPLES=100000` looks longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict
from yarl import URL

from armory.cli.config.client_files import servers_of
from armory.config import load_text
from armory.config.clients.servers import import_servers
from armory.domain.principal import ANONYMOUS
from armory.errors import ArmoryError
from armory.gateway.queries.carriers import read_list_request
from armory.http1.eventstream import Event, EventParser, EventTooLarge
from armory.http1.pool import Connections
from armory.protocol import bodies, jsonrpc
from armory.protocol.errors import Malformed, RpcError
from armory.protocol.rawjson import members_or_none
from armory.protocol.scanning.values import at_once
from armory.protocol.upstream_messages import UnreadableMessage
from armory.protocol.upstream_messages import decode as decode_answer
from armory.upstreams.oauth.discovery import challenge_of
from armory.wire.http.admitted import accepts
from armory.wire.http.host_checks import HostChecks
from armory.wire.requests import Caller, modern_request
from armory.wire.streams import parse_event_id

CORPUS = Path(__file__).parent / "corpus"
EXAMPLES = int(os.environ.get("ARMORY_FUZZ_EXAMPLES", "60"))
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="ARMORY_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@st.composite
def changed(draw: st.DrawFn, *kinds: str) -> bytes:
    """A file of the corpus with some bytes taken out, put in, or repeated; or any bytes at all."""
    seeds = sorted(path for kind in kinds for path in CORPUS.glob(f"*.{kind}"))
    text = draw(st.sampled_from(seeds)).read_bytes() if draw(st.integers(0, 9)) else b""
    for _ in range(draw(st.integers(0, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 12)))
        part = draw(st.one_of(st.binary(max_size=12), st.just(text[begin:end] * 50)))
        text = text[:begin] + part + text[end:]
    return text


@given(changed("sse"), st.integers(1, 20))
@fuzzed
def test_events_are_the_same_however_they_are_cut(text: bytes, step: int) -> None:
    def read(size: int) -> list[Event] | None:
        parser = EventParser(100_000)
        found: list[Event] = []
        try:
            for begin in range(0, len(text), size):
                found += parser.feed(text[begin : begin + size])
        except EventTooLarge:
            return None
        return found

    whole, cut = read(len(text) or 1), read(step)
    assert whole is None or cut is None or whole == cut


@given(changed("json"))
@fuzzed
def test_what_an_upstream_says(text: bytes) -> None:
    with contextlib.suppress(UnreadableMessage):
        decode_answer(text)


@given(changed("json"))
@fuzzed
def test_what_a_client_says(text: bytes) -> None:
    try:
        bodies.check_depth(text, 64)
        found = at_once(bodies.batch_items(text)) if bodies.is_batch(text) else [text]
        for item in found:
            message = jsonrpc.decode(item)
            params = jsonrpc.params_of(message) if message.is_request else {}
            meta = members_or_none(params.get("_meta")) or {}
            read_list_request(
                modern_request(Caller(ANONYMOUS), "2026-07-28", meta, _nowhere), params
            )
    except (Malformed, RpcError):
        pass


async def _nowhere(_data: bytes) -> None:
    raise AssertionError


NAMES = ("Query", "Threshold", "Top-K", "Servers", "Categories", "Ranker", "Mode")


@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=30)), st.text(max_size=60))
@fuzzed
def test_whatever_a_header_or_url_says_is_read_or_refused(
    carried: dict[str, str], text: str
) -> None:
    headers = CIMultiDict({f"X-Armory-{name}": value for name, value in carried.items()})
    url = {name.lower().replace("-", "_"): [value] for name, value in carried.items()}
    for given_headers, given_url in ((headers, {}), (CIMultiDict[str](), url)):
        caller = Caller(ANONYMOUS, headers=given_headers, url=given_url)
        with contextlib.suppress(RpcError):
            read_list_request(modern_request(caller, "2026-07-28", {}, _nowhere), {})
    accepts(text)
    parse_event_id(text)
    challenge_of(text)
    checks = HostChecks("127.0.0.1", ["a.example"], ["https://a.example"], ["10.0.0.0/8"])
    assert not checks.host_allowed(f"{text}.evil.example")
    checks.origin_allowed(text)
    checks.seen_as("10.0.0.1", {"X-Forwarded-For": text, "X-Forwarded-Host": text})


@given(changed("yaml"))
@fuzzed
def test_whatever_a_configuration_says_is_read_or_refused(text: bytes) -> None:
    with contextlib.suppress(ArmoryError):
        load_text(text.decode("utf-8", "replace"), environ={"ARMORY_HOME": "/nowhere"})


@given(changed("json"))
@fuzzed
def test_files_of_other_clients(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "servers.json"
    file.write_bytes(text)
    with contextlib.suppress(ArmoryError):
        import_servers(servers_of(file))


@given(st.lists(changed("http"), min_size=1, max_size=20))
@settings(fuzzed, max_examples=max(4, EXAMPLES // 20))
def test_whatever_an_http_server_answers_ends_as_an_error_at_most(texts: list[bytes]) -> None:
    asyncio.run(_answered(texts))


async def _answered(texts: list[bytes]) -> None:
    left = list(texts)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop())
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    connections = Connections(False, 5.0, 4.0)
    while left:
        try:
            async with asyncio.timeout(10):
                response: Any = await connections.request("GET", url, {}, None, 5.0)
                await response.read()
                response.close()
        except OSError:
            pass
    connections.close()
    server.close()
    await asyncio.sleep(0)


@pytest.mark.parametrize("host", ["[localhost].evil.example:80", "[::1].evil", "[localhost]", "["])
def test_a_host_in_brackets_is_an_address_and_nothing_more(host: str) -> None:
    checks = HostChecks("127.0.0.1")
    assert not checks.host_allowed(host)
    assert checks.host_allowed("[::1]:80")
