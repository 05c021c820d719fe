"""`armory add`: adds a server of the MCP registry as an upstream.

Owns: the command, and fetching a description. Never imports a room but `config` and `domain`.
"""

from __future__ import annotations

import http.client
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import click

from armory.cli.config.adding import added, existing_in, say_added, taken_in
from armory.cli.config.clear_secrets import SecretsToWrite
from armory.cli.config.server_json import KINDS, Described, Setting, described
from armory.cli.options import json_option, writing_options
from armory.cli.output import print_json
from armory.cli.plain import plain
from armory.config.load import variables_of
from armory.domain.naming import slug
from armory.errors import ConfigError, InvalidRequest, UpstreamUnavailable

REGISTRY = "https://registry.modelcontextprotocol.io"
_TIMEOUT_S = 30.0
_MOST_BYTES = 4 << 20
_SHOWN = 10


@click.command()
@click.argument("server", metavar="NAME|FILE|URL")
@click.option("--as", "kind", type=click.Choice(KINDS), help="Use this kind of offer.")
@click.option("--name", "key", metavar="KEY", help="What to call it; default: its own name.")
@click.option(
    "--set",
    "values",
    metavar="NAME=VALUE",
    multiple=True,
    help="A variable, header or argument that it asks for; repeatable.",
)
@writing_options
@click.option(
    "--registry", envvar="ARMORY_REGISTRY", show_envvar=True, default=REGISTRY, show_default=True
)
@click.option("--no-input", is_flag=True, help="Ask nothing; write ${VAR} for what is not set.")
@json_option
def add(
    server: str,
    kind: str | None,
    key: str | None,
    values: Sequence[str],
    into: Path,
    env_file: Path | None,
    registry: str,
    no_input: bool,
    only_print: bool,
    as_json: bool,
) -> None:
    """Add a server: its NAME in the registry, or the FILE or URL of its server.json.

    Packages of npm, PyPI, OCI and NuGet become commands of npx, uvx, docker and dnx, remotes become
    URLs. Values that the server needs are asked for in a terminal, or set with --set.
    """
    answers = _Answers(values, asking=sys.stdin.isatty() and not (no_input or as_json))
    found = described(_document(server, registry.rstrip("/")), answers.answer, kind)
    if answers.unused:
        raise InvalidRequest(f"--set {min(answers.unused)}: {found.name} does not ask for it")
    existing = existing_in(into)
    chosen = _key(key, found, taken_in(existing, into), into)
    upstreams: dict[str, Any] = {chosen: found.block}
    secrets = SecretsToWrite(upstreams, env_file)
    known = variables_of(into)
    lacking = [wanted for wanted in found.missing if wanted.variable not in known]
    notices = [*found.notices, *(_lacking(chosen, wanted) for wanted in lacking)]
    notices += secrets.notices("--env .env", into, only_print=only_print)
    if not only_print:
        secrets.write(into, added(existing, upstreams, into))
    if as_json:
        print_json({"name": found.name, "upstreams": upstreams, "notices": notices})
    else:
        say_added(upstreams, notices, into, only_print=only_print)


def _key(given: str | None, found: Described, taken: Mapping[str, Any], into: Path) -> str:
    key = given or slug(found.name.rpartition("/")[2])
    if key != slug(key):
        raise InvalidRequest(f"--name is {key!r}; expected a name such as {slug(key)!r}")
    if key in taken:
        raise ConfigError(f"{into} has an upstream {key!r} already; --name gives it another name")
    return key


def _lacking(key: str, wanted: Setting) -> str:
    about = f" ({wanted.text})" if wanted.text else ""
    return (
        f"upstreams.{key} needs {wanted.name}{about}: set the variable {wanted.variable}, "
        "or put it into a .env beside armory.yaml"
    )


class _Answers:
    """Values for the settings of a server: of `--set`, else asked for at the terminal."""

    def __init__(self, values: Sequence[str], *, asking: bool) -> None:
        self._asking = asking
        self._values: dict[str, str] = {}
        for text in values:
            name, equals, value = text.partition("=")
            if not (name and equals):
                raise InvalidRequest(f"--set is {text!r}; expected NAME=VALUE")
            self._values[name] = value
        self.unused = set(self._values)

    def answer(self, wanted: Setting) -> str | None:
        """`server_json.Ask`."""
        if wanted.name in self._values:
            self.unused.discard(wanted.name)
            return self._values[wanted.name]
        if not self._asking or not (wanted.required or wanted.default is None):
            return None
        about = f" ({wanted.text})" if wanted.text else ""
        needed = "" if wanted.required else ", empty: none"
        answer: str = click.prompt(
            plain(f"{wanted.name}{about}{needed}"),
            default=wanted.default or "",
            show_default=bool(wanted.default),
            hide_input=wanted.secret,
            type=click.Choice(list(wanted.choices)) if wanted.choices and wanted.required else str,
            err=True,
        )
        return answer or None


def _document(server: str, registry: str) -> object:
    if not server.strip():
        raise InvalidRequest("expected the NAME of a server, or the FILE or URL of its server.json")
    if server.startswith(("http://", "https://")):
        return _fetched(server)
    path = Path(server)
    if path.is_file():
        try:
            return json.loads(path.read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise InvalidRequest(f"{path} is no JSON: {error}") from None
    if server.endswith(".json"):
        raise InvalidRequest(f"there is no file {server!r}")
    if "/" in server:
        return _fetched(f"{registry}/v0.1/servers/{quote(server, safe='')}/versions/latest")
    return _searched(server, registry)


def _searched(word: str, registry: str) -> object:
    """The one server whose name's last part is `word`; else which ones there are."""
    asked = urlencode({"search": word, "version": "latest", "limit": 100})
    answer = _fetched(f"{registry}/v0.1/servers?{asked}")
    entries = answer.get("servers") if isinstance(answer, dict) else None
    servers = [entry.get("server", entry) for entry in entries or [] if isinstance(entry, dict)]
    names = [str(server.get("name")) for server in servers]
    same = [s for s, name in zip(servers, names, strict=True) if name.rpartition("/")[2] == word]
    if len(same) == 1:
        return same[0]
    if not names:
        raise InvalidRequest(f"{registry} has no server called {word!r}")
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    raise InvalidRequest(f"{word!r} may be several servers: {shown}; give the whole name")


def _fetched(url: str) -> Any:
    try:
        request = urllib.request.Request(url, headers={"Accept": "application/json"})
        body = _in_time(request)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 404:
            raise InvalidRequest(f"there is no server at {url}") from None
        raise UpstreamUnavailable(f"{url} answered HTTP {error.code}") from None
    except OSError as error:
        raise UpstreamUnavailable(_not_reached(url, error)) from None
    except (ValueError, http.client.InvalidURL) as error:
        raise InvalidRequest(f"{url} cannot be read: {error}; expected an http(s) URL") from None
    except http.client.HTTPException as error:
        message = f"{url} cannot be read: {type(error).__name__}: {error}"
        raise UpstreamUnavailable(f"{message}; expected what speaks HTTP") from None
    if len(body) > _MOST_BYTES:
        raise InvalidRequest(f"{url} is larger than {_MOST_BYTES >> 20} MiB")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequest(
            f"{url} is no server.json; an MCP endpoint is added by hand: "
            "`upstreams: {NAME: {url: ...}}`"
        ) from None


def _in_time(request: urllib.request.Request) -> bytes:
    """The beginning of an answer, read in a thread: the time limit of a socket is for each read,
    and an answer may come byte by byte.

    Raises:
        TimeoutError: it was not there in time.
    """
    found: Future[bytes] = Future()

    def read() -> None:
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                found.set_result(answer.read(_MOST_BYTES + 1))
        except BaseException as error:  # noqa: BLE001 - it is raised by who waits
            found.set_exception(error)

    Thread(target=read, daemon=True).start()
    try:
        return found.result(_TIMEOUT_S)
    except TimeoutError:
        raise TimeoutError(f"it was not there after {_TIMEOUT_S:.0f} s") from None


def _not_reached(url: str, error: OSError) -> str:
    reason: Any = getattr(error, "reason", None) or error
    if isinstance(reason, OSError):
        reason = reason.strerror or reason
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy is None or urllib.request.proxy_bypass(parts.netloc):
        fix = f"a proxy is named by ${parts.scheme.upper()}_PROXY"
        return f"{url} cannot be read: {reason}; {fix}, and a server.json may be a FILE as well"
    there = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    by = there.netloc.rpartition("@")[2]  # its password is told to nobody
    return f"{url} cannot be read by way of the proxy {by}: {reason}; correct it, or $NO_PROXY"
