"""Adding upstreams to `armory.yaml` without touching its comments.

Owns: finding what is there, the text with what is new, and what is said of it. Never imports a room
but `config`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import yaml

from armory.cli.output import out, say_notice
from armory.config.load import read_file
from armory.config.loaded import ConfigProblems
from armory.config.source import Source
from armory.errors import ConfigError

_UPSTREAMS = re.compile(r"^upstreams:[ \t]*(?P<rest>[^#\n]*)(?:#[^\n]*)?$", re.MULTILINE)
_INDENT = re.compile(r"\n([ ]+)[^\s#]")
_BARE_NEWLINE = re.compile(r"(?<!\r)\n")


def existing_in(into: Path) -> str:
    """The text to add to, its newlines as they are; empty where there is no file.

    Raises:
        ConfigError: it cannot be read.
    """
    return read_file(into).removeprefix("\ufeff") if into.is_file() else ""


def taken_in(existing: str, into: Path) -> dict[str, Any]:
    """The upstreams of a configuration, by key.

    Raises:
        ConfigProblems: it is no YAML.
    """
    source = Source(existing)
    if source.problems:
        raise ConfigProblems(source.problems, str(into))
    blocks = source.data.get("upstreams")
    return {str(key): blocks[key] for key in blocks} if isinstance(blocks, dict) else {}


def block_text(upstreams: dict[str, Any], indent: str = "") -> str:
    """Upstreams as `armory.yaml` has them; indented, without the line that names the block."""
    text = yaml.safe_dump(
        {"upstreams": upstreams} if not indent else upstreams,
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )
    return "".join(indent + line for line in text.splitlines(keepends=True))


def added(existing: str, upstreams: dict[str, Any], into: Path) -> str:
    """The configuration with further upstreams; every other line stays as it is.

    Raises:
        ConfigError: they are written on one line, or otherwise than can be added to.
    """
    wanted = {**taken_in(existing, into), **upstreams}
    for text in _added(existing, upstreams, into):
        if "\r\n" in existing:
            text = _BARE_NEWLINE.sub("\r\n", text)
        try:
            held = taken_in(text, into)
        except ConfigError:
            continue
        if held == wanted:
            return text
    raise ConfigError(
        f"nothing can be added to {into} as it is written; use --print and add it by hand"
    )


def _added(existing: str, upstreams: dict[str, Any], into: Path) -> Iterator[str]:
    """The text with the upstreams where they may stand: after those that there are, or else before
    them.
    """
    head = _UPSTREAMS.search(existing)
    if head is None:
        gap = "\n" if existing and not existing.endswith("\n\n") else ""
        yield existing + gap + block_text(upstreams)
        return
    if head["rest"].strip() not in ("", "{}"):
        raise ConfigError(
            f"the upstreams of {into} are written on one line, where nothing can be added; "
            "use --print and add them by hand"
        )
    start = head.start()
    line = "upstreams:" if head["rest"].strip() else existing[start : head.end()]
    inner = _INDENT.search(existing, head.end())
    indent = inner[1] if inner and not head["rest"].strip() else "  "
    block = block_text(upstreams, indent)
    end = _end_of_block(existing, head.end() + 1)
    if end:
        gap = "" if existing[:end].endswith("\n") else "\n"
        yield existing[:end] + gap + block + existing[end:]
    yield existing[:start] + line + "\n" + block + existing[head.end() + 1 :]


def _end_of_block(text: str, begin: int) -> int:
    """Where the last indented line from `begin` on ends, before anything else; 0: there is none."""
    end, at = 0, begin
    for line in text[begin:].splitlines(keepends=True):
        at += len(line)
        if line[0] in " \t" and line.strip():
            end = at
        elif line.strip() and line[0] != "#":
            break
    return end


def say_added(
    upstreams: dict[str, Any], notices: Iterable[str], into: Path, *, only_print: bool
) -> None:
    """Tell a person what was added, and what to do next; or print the upstreams."""
    for notice in notices:
        say_notice(notice)
    if only_print:
        click.echo(block_text(upstreams), nl=False)
        return
    names = ", ".join(upstreams) or "nothing"
    text = f"Added to {into}: {names}."
    if into.is_file():
        text += f" Next: armory validate --connect --config {shlex.quote(str(into))}"
    out().print(text, markup=False, soft_wrap=True)


def write_text(into: Path, text: str) -> None:
    """Write the configuration.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        into.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise ConfigError(f"{into} cannot be written: {error.strerror}") from None
