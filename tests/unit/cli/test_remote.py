"""Which endpoint `--url` means."""

from __future__ import annotations

import socket
import threading

import pytest

from armory.cli.gateway.running import gateways
from armory.cli.remote import endpoint_url
from armory.errors import ConfigError, UpstreamUnavailable
from tests.threaded import Answering, served


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080/mcp?mode=full"),
        ("https://a.example/", "https://a.example/mcp?mode=full"),
        ("http://a/mcp/set/x?query=y", "http://a/mcp/set/x?query=y&mode=full"),
        ("http://a/mcp?mode=compact", "http://a/mcp?mode=compact"),
        ("http://a/mcp?x=1&mode=bogus", "http://a/mcp?x=1&mode=bogus"),
        ("http://a/below", "http://a/below/mcp?mode=full"),
        ("http://a/below/mcp/set/x", "http://a/below/mcp/set/x?mode=full"),
        ("http://a/sse", "http://a/sse?mode=full"),
    ],
)
def test_an_endpoint_and_a_mode_of_the_url_stay(given: str, meant: str) -> None:
    assert endpoint_url(given, "full") == meant


@pytest.mark.parametrize(
    "given",
    [
        "ftp://a",
        "http://",
        "file:///a",
        "http://[::1",
        "a:b",
        "http://a:0",
        "a 8080",
        "a:99999",
        "",
    ],
)
def test_what_is_no_gateway(given: str) -> None:
    with pytest.raises(ConfigError, match="is no URL of a gateway; write"):
        endpoint_url(given)
    with pytest.raises(ConfigError, match="is no URL of a gateway; write"):
        gateways(given, None)


def test_what_does_not_speak_http_is_no_gateway() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(b"SSH-2.0-\x1b[31m\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        (gateway,) = gateways(f"127.0.0.1:{listening.getsockname()[1]}", None)
        with pytest.raises(UpstreamUnavailable, match=r"does not speak HTTP \('SSH-2.0-\\x1b"):
            gateway.get("/readyz")
        thread.join(5)


class _NothingHere(Answering):
    def do_GET(self) -> None:
        self.send_error(404)


def test_a_path_where_no_gateway_is_is_told_with_the_url() -> None:
    with served(_NothingHere) as base:
        url = f"{base}/other"
        (gateway,) = gateways(url, None)
        with pytest.raises(UpstreamUnavailable, match=f"no gateway answers at {url}: HTTP 404"):
            gateway.get("/v1/upstreams")
