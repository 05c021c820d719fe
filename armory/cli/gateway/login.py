"""`armory login` and `armory logout`: log in at an upstream that needs a person's login.

Owns: the commands, the browser, and the page that it comes back to.
"""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import click

from armory.cli.options import config_option, json_option, loaded_config
from armory.cli.output import err, out, print_json
from armory.errors import ArmoryError, InvalidRequest, UpstreamUnavailable
from armory.runtime.logins import log_in, log_out

WAIT_S = 600.0
_LAST_S = 2.0
"""How long the browser may take to fetch the last page."""
_DONE = "Logged in. You may close this page."
_PATH = "/callback"


_as_option = click.option(
    "--as",
    "user",
    metavar="USER",
    help="Whose account: a user, or token:NAME for a token without one.",
)


def _person(user: str | None) -> str | None:
    """As `Principal.person` says it: callers without a user go by their credential.

    Raises:
        InvalidRequest: nobody is called so; a variable of the shell that is not set, say.
    """
    if user is not None and not (user.strip() and user.isprintable()):
        raise InvalidRequest(f"--as is {user[:40]!r}; expected a user, or token:NAME")
    if user is None or user.startswith(("token:", "api_key:", "anonymous:")):
        return user
    return f"user:{user}"


@click.command()
@click.argument("server")
@click.option("--no-browser", is_flag=True, help="Only print the address to open.")
@_as_option
@config_option
@json_option
def login(
    server: str, config: str | None, user: str | None, *, no_browser: bool, as_json: bool
) -> None:
    """Log in at the upstream SERVER, for everybody who may use it through the gateway, or, with
    --as, for one person, if each has an account of its own there (auth.per: principal).

    A running gateway uses the login from its next request on.
    """
    issuer = asyncio.run(_login(server, config, _person(user), browser=not no_browser))
    if as_json:
        print_json({"server": server, "issuer": issuer})
        return
    out().print(f"Logged in at {issuer}.", markup=False)


@click.command()
@click.argument("server")
@_as_option
@config_option
@json_option
def logout(server: str, config: str | None, user: str | None, *, as_json: bool) -> None:
    """Delete the login at the upstream SERVER, or with --as that of one person."""
    found = asyncio.run(log_out(loaded_config(config), server, _person(user)))
    if as_json:
        print_json({"server": server, "logged_out": found})
        return
    if not found:
        whose = "The gateway" if user is None else user
        out().print(f"{whose} was not logged in at {server}.", markup=False)
        return
    if user is not None:
        out().print(f"Logged {user} out of {server}.", markup=False)
        return
    out().print(f"Logged out of {server}; a gateway that runs uses its token no more.")


class _Callback:
    """The page that the browser returns to; it shows whether the login succeeded."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._back: asyncio.Future[Mapping[str, str]] = loop.create_future()
        self._ended: asyncio.Future[str] = loop.create_future()
        self._answering: asyncio.Task[Any] | None = None
        self._state = ""

    async def came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await self._page(head.partition(b"\r\n")[0].decode("ascii", "replace")))
            await writer.drain()
        writer.close()

    async def _page(self, line: str) -> bytes:
        method, _, rest = line.partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        if target.path != _PATH or method != "GET":
            return _page("404 Not Found", "Not here.")
        back = dict(parse_qsl(target.query))
        if not self._state or back.get("state") != self._state:
            # of a login before this one, or of some page: neither ends this one
            return _page("400 Bad Request", "The answer is of another login.")
        if self._back.done():
            return _page("400 Bad Request", "This login was answered already.")
        self._answering = asyncio.current_task()
        self._back.set_result(back)
        return _page("200 OK", await self._ended)

    def pasted(self, address: str) -> bool:
        """Take the address that the browser ended at; whether it is of this login."""
        back = dict(parse_qsl(urlsplit(address).query))
        if not self._state or back.get("state") != self._state or self._back.done():
            return False
        self._back.set_result(back)
        return True

    def expect(self, login_url: str) -> asyncio.Future[Mapping[str, str]]:
        """With what the person comes back who is about to be sent to `login_url`."""
        self._state = dict(parse_qsl(urlsplit(login_url).query)).get("state", "")
        return self._back

    async def end(self, said: str) -> None:
        """Show the outcome in the browser, as `said`."""
        self._ended.set_result(said)
        if self._answering is not None:
            await asyncio.wait((self._answering,), timeout=_LAST_S)


async def _login(server: str, config: str | None, person: str | None, *, browser: bool) -> str:
    loaded = loaded_config(config)
    page = _Callback()
    listening = await asyncio.start_server(page.came, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]

    async def visit(url: str) -> Mapping[str, str]:
        back = page.expect(url)
        err().print(f"Open this address to log in:\n{url}", markup=False, soft_wrap=True)
        if browser:
            await asyncio.to_thread(webbrowser.open, url)
        try:
            with _typed(page.pasted):
                async with asyncio.timeout(WAIT_S):
                    return await back
        except TimeoutError:
            raise UpstreamUnavailable(
                f"nobody came back from the login page within {WAIT_S:g} s", upstream=server
            ) from None

    try:
        issuer = await log_in(loaded, server, f"http://127.0.0.1:{port}{_PATH}", visit, person)
        await page.end(_DONE)
        return issuer
    except ArmoryError as error:
        await page.end(f"That did not work. {error.message}")
        raise
    finally:
        listening.close()


@contextmanager
def _typed(take: Callable[[str], bool]) -> Generator[None]:
    """Where somebody types, take it: a browser elsewhere does not come back to this machine."""
    if not sys.stdin.isatty():
        yield
        return
    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()

    def came() -> None:
        line = sys.stdin.readline()
        if not line:
            loop.remove_reader(terminal)
        elif line.strip() and not take(line.strip()):
            err().print("That is not where this login ends.")

    err().print(
        "If the browser cannot come back (from outside of a container, say), paste here the "
        "address that it ends at."
    )
    loop.add_reader(terminal, came)
    try:
        yield
    finally:
        loop.remove_reader(terminal)


def _page(status: str, text: str) -> bytes:
    body = text.encode()
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    ).encode("ascii") + body
