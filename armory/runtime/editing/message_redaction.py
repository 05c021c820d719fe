"""Redacts the values of variables and masked places in messages about a configuration.

Owns: finding those values and taking them out: whoever may have a text checked must not learn from
the answer what the gateway's environment holds, or what is hidden in its file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from armory.config import ConfigProblems
from armory.config.expand import referred
from armory.config.load import read_file, variables_of
from armory.errors import ConfigError
from armory.observability.redaction import HIDDEN, redacted
from armory.runtime.editing.masking import Masked

_SHORTEST = 4
"""Shorter values stay: they occur in any message by chance."""
_CUT = "..."
"""Ends a quoted value that was cut short."""
_CUT_CHARS = 77


def redacted_message(message: str, hidden: Iterable[str], variables: Mapping[str, str]) -> str:
    """A message for readers that may not know these values.

    Args:
        message: of a problem.
        hidden: values that are hidden in the file, as they stand there.
        variables: values by the names of variables.
    """
    known = [(value.strip().strip("\"'"), HIDDEN) for value in hidden]
    known += [(value.strip(), f"${{{name}}}") for name, value in variables.items()]
    for value, shown in sorted(known, key=lambda one: -len(one[0])):
        if len(value) >= _SHORTEST:
            for spelt in _spellings(value):
                message = _without(message, spelt, shown)
    return redacted(message)


def explained(path: Path, error: ConfigError) -> str:
    """One line about why a file is refused (its first problem), for readers that may not know its
    secrets.

    Args:
        path: the file.
        error: what reading it raised.
    """
    message = str(error)
    if isinstance(error, ConfigProblems):
        more = len(error.problems) - 1
        message = f"{error.problems[0]}{f'; and {more:,} more' if more else ''}"
    hidden: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    with suppress(ConfigError):  # it cannot be read, or is no YAML
        text = read_file(path)
        variables = values_in(path, text)
        hidden = Masked(text, parameters=True).hidden
    return " ".join(redacted_message(message, hidden, variables).split())


def values_in(path: Path, text: str) -> dict[str, str]:
    """The variables that a text refers to, by name.

    Args:
        path: the file that it would be.
        text: what that would hold.
    """
    try:
        known = variables_of(path)
    except ConfigError:
        known = dict(os.environ)  # nothing of that `.env` was read, so no message has it
    return {name: known[name] for name in referred(text) if name in known}


def _spellings(value: str) -> Iterator[str]:
    """A value as it is, and as it appears in quotes."""
    yield value
    quoted = repr(value)[1:-1]
    if quoted != value:
        yield quoted


def _without(message: str, value: str, shown: str) -> str:
    """The message without a value, in any case, also where it is cut short."""
    message = message.replace(value, shown)
    parts: list[str] = []
    lowered, sought, at = message.lower(), value.lower(), 0
    if len(lowered) == len(message):
        while (found := lowered.find(sought, at)) >= 0:
            parts += [message[at:found], shown]
            at = found + len(sought)
    message = "".join([*parts, message[at:]])
    for length in range(min(len(value), _CUT_CHARS), _SHORTEST - 1, -1):
        message = message.replace(value[:length] + _CUT, shown + _CUT)
    return message
