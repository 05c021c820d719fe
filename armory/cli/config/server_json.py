"""Servers as the MCP registry describes them (`server.json`).

Owns: turning one description into an upstream block, and naming what it still has to be told. Reads
the current format and the older one with underscores; a description is a stranger's text, so it
never reads a variable of this machine. Never imports a room, never fetches anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from armory.errors import InvalidRequest

Json = dict[str, Any]
_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_SNAKE = re.compile(r"_([a-z0-9])")
_OTHER = re.compile(r"[^A-Z0-9]+")
_REMOTE = {"streamable-http": "streamable-http", "http": "streamable-http", "sse": "sse"}
KINDS = ("remote", "npm", "pypi", "oci", "nuget")
"""Ways to run a server, the preferred one first."""
_DEFAULT_HOSTS = ("registry.npmjs.org", "pypi.org", "api.nuget.org", "docker.io", "hub.docker.com")
_REGISTRY_OPTIONS = {"npm": "--registry", "pypi": "--default-index", "nuget": "--source"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that the server needs.

    Attributes:
        name: of the header, variable or argument.
        variable: the environment variable that stands for it while nobody has told.
        text: what the description says of it.
        required, secret: as described.
        default: its value where nothing is given; None: left out.
        choices: the values that it may have; empty: any.
    """

    name: str
    variable: str
    text: str = ""
    required: bool = False
    secret: bool = False
    default: str | None = None
    choices: Sequence[str] = ()


Ask = Callable[[Setting], str | None]
"""Answers what a server has to be told; None: nobody knows."""


@dataclass(slots=True)
class Described:
    """A server of the registry, as an upstream.

    Attributes:
        name: as the registry knows it, `io.github.user/server`.
        block: the upstream as `armory.yaml` has it; `${VAR}` where nothing was told.
        missing: what was not told but is required.
        notices: one line for each thing that the reader should know.
    """

    name: str
    block: Json
    missing: list[Setting] = field(default_factory=list[Setting])
    notices: list[str] = field(default_factory=list[str])


def described(document: object, ask: Ask, kind: str | None = None) -> Described:
    """An upstream out of a `server.json`.

    Args:
        document: the JSON value; a registry's answer with a member `server` likewise.
        ask: called for each value that the description does not fix.
        kind: one of `KINDS`; None: the first that the description offers.

    Raises:
        InvalidRequest: it describes no server, or none that can be run so.
    """
    server = _camel(document)
    if isinstance(server, dict) and isinstance(server.get("server"), dict):
        server = server["server"]
    if not isinstance(server, dict) or not isinstance(server.get("name"), str):
        raise InvalidRequest("this is no server.json: it has no member 'name'")
    result = Described(server["name"], {})
    offers = dict(_offers(server))
    if not offers:
        raise InvalidRequest(
            f"{server['name']}: none of its packages or remotes can be run here; expected a remote "
            "(streamable-http, sse) or a package of npm, PyPI, OCI or NuGet that speaks stdio"
        )
    chosen = next(iter(offers)) if kind is None else kind
    if chosen not in offers:
        raise InvalidRequest(f"{server['name']} is offered as {', '.join(offers)}, not as {chosen}")
    others = [other for other in offers if other != chosen]
    if others and kind is None:
        result.notices.append(f"taken as {chosen}; it is offered as {', '.join(others)}, too")
    if server.get("status") == "deprecated":
        result.notices.append(f"{server['name']} is deprecated, its description says")
    reader = _Reader(result, ask)
    offer = offers[chosen]
    result.block = reader.remote(offer) if chosen == "remote" else reader.package(chosen, offer)
    return result


def _offers(server: Json) -> list[tuple[str, Json]]:
    found: dict[str, Json] = {}
    remotes = [r for r in _maps(server.get("remotes")) if _transport(r) in _REMOTE and r.get("url")]
    remotes.sort(key=lambda remote: _REMOTE[_transport(remote)] == "sse")
    for remote in remotes:
        found.setdefault("remote", remote)
    for package in _maps(server.get("packages")):
        kind = str(package.get("registryType") or package.get("registryName"))
        transport = package.get("transport")
        stdio = not isinstance(transport, dict) or transport.get("type", "stdio") == "stdio"
        name = package.get("identifier") or package.get("name")
        if kind in KINDS and kind != "remote" and stdio and isinstance(name, str):
            found.setdefault(kind, {**package, "identifier": name})
    return sorted(found.items(), key=lambda item: KINDS.index(item[0]))


def _transport(remote: Json) -> str:
    return str(remote.get("type") or remote.get("transportType"))


class _Reader:
    """Fills in one offer."""

    def __init__(self, result: Described, ask: Ask) -> None:
        self._result = result
        self._ask = ask

    def remote(self, offer: Json) -> Json:
        """A server that runs elsewhere."""
        variables = offer.get("variables")
        url = self._filled(str(offer["url"]), variables if isinstance(variables, dict) else {})
        block: Json = {"url": url, "transport": _REMOTE[_transport(offer)]}
        if headers := self._named(offer.get("headers")):
            block["headers"] = headers
        return block

    def package(self, kind: str, offer: Json) -> Json:
        """A server that is started here."""
        name, version = str(offer["identifier"]), offer.get("version")
        env = self._named(offer.get("environmentVariables"))
        runtime = self._arguments(offer.get("runtimeArguments"))
        arguments = self._arguments(offer.get("packageArguments"))
        registry = _registry(offer)
        if kind == "oci":
            image = _image(name, version, registry)
            passed = [part for variable in env for part in ("-e", variable)]
            command = ["docker", "run", "-i", "--rm", *passed, *runtime, image, *arguments]
        else:
            if registry and kind in _REGISTRY_OPTIONS:  # elsewhere the name may be a stranger's
                runtime = [_REGISTRY_OPTIONS[kind], registry, *runtime]
            at = f"{name}@{version}" if version else name
            command = _launched(kind, at, runtime, arguments)
        return {"command": command[0], "args": command[1:], **({"env": env} if env else {})}

    def _named(self, inputs: object) -> dict[str, str]:
        """Headers or variables."""
        found: dict[str, str] = {}
        for entry in _maps(inputs):
            value = self._value(entry, str(entry.get("name")))
            if value is not None:
                found[str(entry.get("name"))] = value
        return found

    def _arguments(self, inputs: object) -> list[str]:
        found: list[str] = []
        for entry in _maps(inputs):
            flag = str(entry.get("name")) if entry.get("type") == "named" else None
            if flag is not None and not _takes_value(entry):
                found.append(flag)
                continue
            value = self._value(entry, flag or str(entry.get("valueHint") or "argument"))
            if value is None:
                continue
            if flag is None:
                found.append(value)
            elif flag.startswith("--"):
                found.append(f"{flag}={value}")
            else:
                found += [flag, value]
        return found

    def _value(self, entry: Json, name: str) -> str | None:
        fixed = entry.get("value")
        if isinstance(fixed, str):
            variables = entry.get("variables")
            return self._filled(fixed, variables if isinstance(variables, dict) else {})
        return self._setting(entry, name)

    def _filled(self, text: str, variables: Mapping[str, Any]) -> str:
        def fill(match: re.Match[str]) -> str:
            entry = variables.get(match[1])
            if not isinstance(entry, dict):
                return match[0]
            return self._value(cast("Json", entry), match[1]) or ""

        return _VARIABLE.sub(fill, text)

    def _setting(self, entry: Json, name: str) -> str | None:
        variable = _OTHER.sub("_", name.upper()).strip("_") or "VALUE"
        wanted = Setting(
            name,
            variable,
            text=str(entry.get("description") or entry.get("placeholder") or ""),
            required=entry.get("isRequired") is True,
            secret=entry.get("isSecret") is True,
            default=_text(entry.get("default")),
            choices=tuple(map(str, _list(entry.get("choices")))),
        )
        value = self._ask(wanted)
        if value is not None:
            if wanted.choices and value not in wanted.choices:
                raise InvalidRequest(
                    f"{name} is {value!r}; expected one of {', '.join(wanted.choices)}"
                )
            return value
        if wanted.default is not None:
            return wanted.default
        if wanted.required:
            self._result.missing.append(wanted)
            return f"${{{variable}}}"
        return None


def _registry(offer: Json) -> str:
    """Where a package lies, where that is not where its launcher looks by itself; else empty."""
    url = str(offer.get("registryBaseUrl") or "")
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    host = (parts.hostname or "").removeprefix("index.").removeprefix("registry-1.")
    return url if parts.scheme in ("http", "https") and host not in ("", *_DEFAULT_HOSTS) else ""


def _launched(kind: str, at: str, runtime: list[str], arguments: list[str]) -> list[str]:
    """The command line by which a package's launcher installs it, if need be, and runs it."""
    if kind == "npm":
        yes = [] if "-y" in runtime or "--yes" in runtime else ["-y"]
        return ["npx", *runtime, *yes, at, *arguments]
    if kind == "pypi":
        return ["uvx", *runtime, at, *arguments]
    return ["dnx", *runtime, at, "--yes", *(["--", *arguments] if arguments else [])]


def _image(name: str, version: object, registry: str) -> str:
    """A container's image with registry and version, each unless the name has one."""
    if registry and not _names_registry(name):
        name = f"{registry.partition('://')[2].rstrip('/')}/{name}"
    tagged = ":" in name.rpartition("/")[2] or "@" in name
    return f"{name}:{version}" if version and not tagged else name


def _names_registry(image: str) -> bool:
    first, slash, _ = image.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


def _takes_value(entry: Json) -> bool:
    members = ("value", "default", "isRequired", "format", "placeholder", "choices", "variables")
    return any(entry.get(member) not in (None, False) for member in members)


def _camel(value: object) -> Any:
    """The current spelling of every member, whichever one the document has."""
    if isinstance(value, list):
        return [_camel(inner) for inner in cast("list[object]", value)]
    if not isinstance(value, dict):
        return _literal(value) if isinstance(value, str) else value
    members = cast("dict[str, object]", value)
    return {_SNAKE.sub(_capital, key): _member(key, inner) for key, inner in members.items()}


def _capital(match: re.Match[str]) -> str:
    return match[1].upper()


def _member(key: str, value: object) -> Any:
    if key == "variables" and isinstance(value, dict):  # its keys are names, not members
        return {name: _camel(inner) for name, inner in cast("dict[str, object]", value).items()}
    return _camel(value)


def _literal(text: str) -> str:
    """A stranger's text, in which `armory.yaml` finds no variable of this machine."""
    return text.replace("${", "$${")


def _maps(value: object) -> list[Json]:
    return [cast("Json", entry) for entry in _list(value) if isinstance(entry, dict)]


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
