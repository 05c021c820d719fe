"""A token that a command is given goes to the gateway that it is for, wherever that points."""

from __future__ import annotations

from contextlib import ExitStack
from http.server import ThreadingHTTPServer

import click
import pytest

from armory.cli.gateway.running import Gateway
from armory.cli.main import cli, main
from tests.threaded import Answering, in_thread

TOKEN = "the-token-of-an-administrator"


class Noting(ThreadingHTTPServer):
    """Redirects `/to` where it is told, and notes with which tokens it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = ""
        self.tokens: list[str | None] = []


class _Handler(Answering):
    server: Noting  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self.server.tokens.append(self.headers.get("Authorization"))
        if self.path == "/to":
            self.say(b"{}", status=302, Location=self.server.target)
        else:
            self.say(b"{}")


@pytest.mark.parametrize("pid", [0, 1])
def test_another_origin_is_not_given_the_token(pid: int) -> None:
    with ExitStack() as stack:
        gateway, other = (stack.enter_context(in_thread(Noting())) for _ in range(2))
        asked = Gateway(f"http://127.0.0.1:{gateway.server_port}", TOKEN, pid)
        gateway.target = f"http://127.0.0.1:{other.server_port}/from"
        assert asked.get("/to") == {}
        assert (gateway.tokens, other.tokens) == ([f"Bearer {TOKEN}"], [None])
        gateway.target = "/here"
        assert asked.get("/to") == {}
        assert gateway.tokens == [f"Bearer {TOKEN}"] * 3


def test_a_token_is_sent_as_clients_send_it() -> None:
    with in_thread(Noting()) as gateway:
        asked = Gateway(f"http://127.0.0.1:{gateway.server_port}", "tökn-of-10-€")
        assert asked.get("/here") == {}
        (told,) = gateway.tokens
    assert told is not None
    assert told.encode("latin-1").decode() == "Bearer tökn-of-10-€"


@pytest.mark.parametrize(
    ("token", "said"), [("qx\ntwo", "holds a line break"), ("qx\udcff", "is no UTF-8")]
)
@pytest.mark.parametrize("command", ["tools", "status"])
def test_what_no_header_can_hold_is_refused_and_not_shown(
    command: str, token: str, said: str
) -> None:
    with pytest.raises(click.BadParameter, match=said) as refused:
        cli.main([command, "--url", "http://h", "--token", token], standalone_mode=False)
    message = refused.value.format_message()
    assert "'--token'" in message
    assert "qx" not in message


def test_the_newline_of_a_file_is_no_part_of_a_token() -> None:
    with in_thread(Noting()) as gateway:
        url = f"http://127.0.0.1:{gateway.server_port}"
        with pytest.raises(SystemExit):
            main(["logs", "x", "--url", url, "--token", f"{TOKEN}\r\n"])
    assert gateway.tokens[0] == f"Bearer {TOKEN}"
