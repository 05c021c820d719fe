"""Validation of single values: keys of another kind of upstream, headers, hosts, origins,
addresses.

Owns: these checks of single values, which go by nothing but the key beside them. Never imports a
room, but the form of a header's name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from armory.config.base import HTTP_URL, NO_HOST, has_host
from armory.config.blocks.upstream import UpstreamConfig
from armory.config.model import Config
from armory.config.problems import Findings, Path
from armory.protocol.headers import HEADER_NAME

KINDS = ("command", "url", "openapi", "skills")
_OF_A_PROCESS = ("args", "env", "cwd", "inherit_env", "start_timeout_s")
_OVER_HTTP = ("headers", "tls", "proxy")
_BELONG: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_OF_A_PROCESS, ("command",)),
    **dict.fromkeys(_OVER_HTTP, ("url", "openapi")),
}
"""Keys that mean something for some kinds of upstreams only."""
_HTTP_URL = re.compile(HTTP_URL)
_LINE_BREAK = re.compile(r"[\r\n\0]")
_MAY_HOLD_A_SECRET = re.compile("[@?]")
_SPACE = re.compile(r"\s")
_HOST = re.compile(r"\*|\[?[0-9a-f:]*:[0-9a-f:.]*:[0-9a-f:.]*\]?(:\d+)?|[^\s/:@?#*\[\]]+(:\d+)?")
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^\s/@?#*]+/?")


def misplaced_keys(given: Collection[str]) -> list[str]:
    """The keys of one upstream that belong to another kind of upstream."""
    kinds = [kind for kind in KINDS if kind in given]
    if len(kinds) != 1:
        return []
    return [name for name in given if name in _BELONG and kinds[0] not in _BELONG[name]]


def upstreams(config: Config) -> Findings:
    """Keys and headers that could not have any effect."""
    for key, block in config.upstreams.items():
        at = ("upstreams", key)
        given = [name for name in type(block).model_fields if not _is_default(block, name)]
        kind = next((kind for kind in KINDS if kind in given), "")
        for name in misplaced_keys(given):
            owners = " and ".join(map(repr, _BELONG[name]))
            yield (
                (*at, name),
                f"it belongs to {owners}, and this upstream has {kind!r}; leave it out",
            )
        if kind in ("openapi", "skills") and block.transport in ("streamable-http", "sse"):
            yield (
                (*at, "transport"),
                f"transport {block.transport!r} needs a 'url', not {kind!r}; leave it out",
            )
        yield from _process(at, block)
        for name, value in block.headers.items():
            if not HEADER_NAME.fullmatch(name):
                yield (
                    (*at, "headers", name),
                    f"{name!r} is no name of a header; expected letters, digits and hyphens, as in "
                    "X-Api-Key",
                )
            elif _LINE_BREAK.search(value):
                yield (
                    (*at, "headers", name),
                    "a header's value cannot hold a line break; write it in one line",
                )


def _process(at: Path, block: UpstreamConfig) -> Findings:
    """What no process can be given."""
    for name in block.env:
        if not name or "=" in name or "\0" in name:
            yield (
                (*at, "env", name),
                f"{name!r} is no name of a variable; expected one without '=', as in API_KEY",
            )
    texts: dict[Path, str] = {("command",): block.command or ""}
    texts |= {("args", place): text for place, text in enumerate(block.args)}
    texts |= {("env", name): text for name, text in block.env.items()}
    for place, text in texts.items():
        if "\0" in text:
            yield (*at, *place), "it holds a NUL character, which no process can be given"


def hosts(config: Config) -> Findings:
    """Names that no request could bring."""
    for position, host in enumerate(config.server.allowed_hosts):
        if not _HOST.fullmatch(host.lower()):
            yield (
                ("server", "allowed_hosts", position),
                f"{host!r} is no Host header; expected a name, with its port or without, as "
                "tools.example.com, or '*' for any",
            )


def origins(config: Config) -> Findings:
    """Origins that no browser sends."""
    for position, origin in enumerate(config.server.allowed_origins):
        if not _ORIGIN.fullmatch(origin.lower()):
            yield (
                ("server", "allowed_origins", position),
                f"{origin!r} is no origin; expected scheme, host and port alone, as "
                "https://app.example.com, or '*' for any",
            )


def with_hosts(config: Config) -> Findings:
    """URLs that name nobody, of those that may be something else than a URL."""
    rag = config.tool_rag
    urls: dict[Path, str | None] = {
        ("agent", "base_url"): config.agent.base_url,
        ("tool_rag", "openai", "base_url"): rag.openai.base_url,
    }
    for key, block in config.upstreams.items():
        urls["upstreams", key, "openapi"] = block.openapi
    for path, url in urls.items():
        if url is not None and _HTTP_URL.match(url) and not has_host(url):
            yield path, NO_HOST


def addresses(config: Config) -> Findings:
    """Where models and vectors are."""
    agent, rag = config.agent, config.tool_rag
    urls: dict[Path, str | None] = {
        ("agent", "base_url"): agent.base_url if agent.enabled else agent.base_url or None,
        ("tool_rag", "openai", "base_url"): rag.openai.base_url,
    }
    for path, url in urls.items():
        if url is not None and not _HTTP_URL.match(url):
            shown = "" if _MAY_HOLD_A_SECRET.search(url) else f"; it is {url!r}"
            yield path, f"expected an http:// or https:// URL{shown}"
    if agent.enabled and not agent.model.strip():
        yield ("agent", "model"), "expected the name of a chat model; it is blank"
    if rag.qdrant.url is not None and not _is_address(rag.qdrant.url):
        yield (
            ("tool_rag", "qdrant", "url"),
            "expected an http:// or https:// URL, or HOST:PORT, as http://qdrant:6333",
        )


def _is_address(url: str) -> bool:
    """Whether it is a URL, or host and port alone, as Qdrant's client takes it."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        _ = parts.port
    except ValueError:
        return False
    named = bool(parts.hostname) and not _SPACE.search(url)
    return named and parts.scheme in ("http", "https")


def _is_default(block: UpstreamConfig, name: str) -> bool:
    default = type(block).model_fields[name].get_default(call_default_factory=True)
    return getattr(block, name) == default
