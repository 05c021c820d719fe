"""Secrets that a client's file holds in clear.

Owns: finding them in imported upstreams, moving them into a `.env`, and writing a configuration
that still holds some for its owner alone. Never imports a room but `observability` and `config`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from armory.cli.config.adding import write_text
from armory.config.dotenv import NAME as DOTENV
from armory.config.dotenv import read_variables, written
from armory.errors import ConfigError
from armory.observability.redaction import (
    CREDENTIAL_SCHEME,
    names_secret,
    secret_arguments,
    secret_spans,
)

_OTHER = re.compile(r"[^A-Z0-9]+")
_PARAMETER = re.compile(r"[?&]([\w.-]+)=([^&#\s]+)")
_BEARER = re.compile(r"bearer\s+\S+", re.IGNORECASE)
_FILLED_IN_THERE = re.compile(r"\$[A-Z_][A-Z0-9_]*+|\$?\{file:[^{}]++\}|\{\{[A-Z_][A-Z0-9_]*+\}\}")
"""What the client itself fills in, a variable or a file: the secret is elsewhere."""
_BLOCKS = ("env", "headers", "auth")
_URLS = ("url", "openapi", "base_url", "proxy")


@dataclass(frozen=True, slots=True)
class ClearSecret:
    """A secret in clear text in an upstream.

    Attributes:
        key: of the upstream.
        holder: what has the text in which it stands.
        at: key or place of that text there.
        start, end: where in it.
        where: for people, as `upstreams.docs.env.TOKEN`.
        variable: what to call it.
    """

    key: str
    holder: Any
    at: str | int
    start: int
    end: int
    where: str
    variable: str

    @property
    def text(self) -> str:
        """The secret itself."""
        return self.holder[self.at][self.start : self.end]


def clear_secrets(upstreams: dict[str, Any]) -> Iterator[ClearSecret]:
    """Each value, or part of an argument or a URL, that is a secret and no reference to a
    variable or a file; of one text the last one first.
    """
    for key, block in upstreams.items():
        if isinstance(block, dict):
            for found in (_in_blocks, _in_texts):
                for secret in found(key, cast("dict[str, Any]", block)):
                    if not _FILLED_IN_THERE.fullmatch(secret.text):
                        yield secret


def _in_blocks(key: str, known: dict[str, Any]) -> Iterator[ClearSecret]:
    for part in _BLOCKS:
        held: Any = known.get(part)
        given = cast("dict[str, Any]", held) if isinstance(held, dict) else {}
        for name, value in given.items():
            if _is_clear(value) and (names_secret(name) or _BEARER.fullmatch(value)):
                scheme = CREDENTIAL_SCHEME.match(value)
                start = scheme.end() if scheme else 0
                where = f"upstreams.{key}.{part}.{name}"
                variable = name if part == "env" else f"{key}_{name}"
                yield ClearSecret(key, held, name, start, len(value), where, variable)


def _in_texts(key: str, known: dict[str, Any]) -> Iterator[ClearSecret]:
    args: Any = known.get("args")
    texts = cast("list[Any]", args) if isinstance(args, list) else []
    words = [text if isinstance(text, str) else "" for text in texts]
    secret = {place: (start, name) for place, start, name in secret_arguments(words)}
    for place, text in enumerate(words):
        if _is_clear(text):
            start, name = secret.get(place, (0, ""))
            spans = [(start, len(text), name)] if name else _in_text(text)
            where = f"upstreams.{key}.args[{place}]"
            for start, end, name in spans:
                yield ClearSecret(key, texts, place, start, end, where, f"{key}_{name}")
    for part in _URLS:
        if _is_clear(known.get(part)):
            where = f"upstreams.{key}.{part}"
            for start, end, name in _in_text(known[part]):
                yield ClearSecret(key, known, part, start, end, where, f"{key}_{name}")


def _is_clear(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "${" not in value


def _in_text(text: str) -> list[tuple[int, int, str]]:
    """(start, end, name) of the secrets in any text; the last one first, none within another."""
    found = [(start, end, "secret") for start, end in secret_spans(text)]
    found += [
        (*match.span(2), match[1]) for match in _PARAMETER.finditer(text) if names_secret(match[1])
    ]
    apart: list[tuple[int, int, str]] = []
    for start, end, name in sorted(found, key=lambda one: (-one[1], one[2] == "secret", one[0])):
        if not apart or end <= apart[-1][0]:
            apart.append((start, end, name))
    return apart


def moved(upstreams: dict[str, Any], env_file: Path) -> dict[str, str]:
    """Put `${VAR}` in the place of each secret; what the variables are.

    Args:
        upstreams: changed in place.
        env_file: where they will be kept; names that it has for another value are not used again,
            nor those of the environment, which wins over such files.
    """
    known = read_variables(env_file)
    taken = {**os.environ, **known}
    found: dict[str, str] = {}
    for secret in list(clear_secrets(upstreams)):
        text = secret.holder[secret.at]
        value = secret.text
        plain = _name_of(secret.variable)
        longer = _name_of(f"{secret.key}_{plain}")
        variable, number = plain, 1
        while {**taken, **found}.get(variable, value) != value:
            variable, number = longer if number == 1 else f"{longer}_{number}", number + 1
        found[variable] = value
        secret.holder[secret.at] = f"{text[: secret.start]}${{{variable}}}{text[secret.end :]}"
    return {name: value for name, value in found.items() if known.get(name) != value}


def _name_of(text: str) -> str:
    return _OTHER.sub("_", text.upper()).strip("_")


class SecretsToWrite:
    """The secrets of upstreams that are to be written: into a `.env`, or as they stand.

    Args:
        upstreams: changed in place where there is an `env_file`: `${VAR}` stands for each secret.
        env_file: takes the secrets; None: they stay in clear.

    Attributes:
        variables: what goes into `env_file`.
    """

    def __init__(self, upstreams: dict[str, Any], env_file: Path | None) -> None:
        self._in_clear = [] if env_file is not None else list(clear_secrets(upstreams))
        self._env_file = env_file
        self.variables = {} if env_file is None else moved(upstreams, env_file)

    def notices(self, option: str, into: Path, *, only_print: bool) -> list[str]:
        """Where secrets stay in clear, and what would move them; or that the configuration does
        not find them where they go.

        Args:
            option: what moves them: a command or an option.
            into: the configuration.
            only_print: whether nothing is written there; what is there is not taken over again.
        """
        beside = into.parent / DOTENV
        if self._env_file is not None and self.variables and not _same(self._env_file, beside):
            return [
                f"{self._env_file} is not read by itself: variables come from the environment and "
                f"from {beside}"
            ]
        if not self._in_clear:
            return []
        where = ", ".join(dict.fromkeys(one.where for one in self._in_clear))
        first = "" if only_print else f", once these servers are out of {into} again,"
        return [
            f"secrets in clear: {where}; {option}{first} keeps them in a file of their own and "
            "writes ${VAR} instead"
        ]

    def write(self, into: Path, text: str) -> None:
        """Write a configuration with these upstreams, and the `.env`.

        Raises:
            ConfigError: one of them cannot be written.
        """
        if self._env_file is not None and self.variables:
            write_private(self._env_file, written(self.variables), append=True)
        write = write_private if self._in_clear else write_text
        write(into, text)


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def write_private(path: Path, text: str, *, append: bool = False) -> None:
    """Write a file that only its owner may read, or add lines to it.

    Raises:
        ConfigError: it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    try:
        before = path.read_bytes() if append and path.exists() else b""
        if before and not before.endswith(b"\n"):
            text = f"\n{text}"
        descriptor = os.open(path, flags, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
