"""The secret values of a configuration, to be redacted in logs and errors.

Owns: finding them. Never imports a room above observability.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote, unquote_plus, urlsplit

from pydantic import BaseModel, SecretStr

from armory.config import Config
from armory.config.blocks.upstream import UpstreamConfig
from armory.observability.redaction import (
    CREDENTIAL_SCHEME,
    hide,
    hide_parameters,
    looks_random,
    names_secret,
    secret_arguments,
)

_PLAIN_HEADERS = frozenset(
    ("accept", "accept-language", "content-type", "user-agent", "host", "origin", "referer")
)


def hide_secrets(config: Config) -> None:
    """From now on redact this configuration's secrets in all text that is shown."""
    hide(secret_values(config))
    hide_parameters(
        parameter for block in config.upstreams.values() for parameter in _parameters(block)
    )


def secret_values(config: Config) -> frozenset[str]:
    """All values that must not be shown: declared secrets, and values with secret-like names.

    Declared: keys that hold secrets. By name: variables of an upstream's environment, its headers,
    its arguments after `--token` and the like, and passwords, parameters and keys in URLs.
    """
    found = {*_declared(config), *_in_url(config.storage.url)}
    found.update(_in_url(config.storage.redis or ""))
    for block in config.upstreams.values():
        found.update(_of_upstream(block))
    return frozenset(value for value in found if value)


def _declared(value: object) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _declared(getattr(value, name))
    elif isinstance(value, dict):
        for inner in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _declared(inner)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, (list, tuple)):
        for inner in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _declared(inner)  # pyright: ignore[reportUnknownArgumentType]


def _of_upstream(block: UpstreamConfig) -> Iterator[str]:
    for name, value in block.env.items():
        if names_secret(name):
            yield value
        yield from _in_url(value)
    for name, value in block.headers.items():
        scheme = CREDENTIAL_SCHEME.match(value)
        if name.lower() not in _PLAIN_HEADERS and (names_secret(name) or scheme):
            yield value[scheme.end() if scheme else 0 :].strip()
    for place, start, _ in secret_arguments(block.args):
        yield block.args[place][start:]
    for argument in block.args:
        yield from _in_url(argument)
    for url in (block.url, block.openapi, block.base_url, block.proxy):
        yield from _in_url(url or "")


def _parameters(block: UpstreamConfig) -> Iterator[tuple[str, str]]:
    """(name, value) of each parameter in an upstream's URLs, undecoded."""
    texts = (block.url, block.openapi, block.base_url, *block.args, *block.env.values())
    for text in texts:
        if text is not None and "://" in text:
            for parameter in text.partition("?")[2].partition("#")[0].split("&"):
                name, _, value = parameter.partition("=")
                if name and value:
                    yield name, value


def _in_url(text: str) -> Iterator[str]:
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
        password = parts.password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)
    for parameter in parts.query.split("&"):
        name, _, value = parameter.partition("=")
        if names_secret(unquote_plus(name)) or looks_random(unquote(value)):
            yield from (value, unquote(value), unquote_plus(value))
    if parts.scheme in ("http", "https"):  # hosted servers have a key in the path
        yield from filter(looks_random, parts.path.split("/"))
