"""The frontmatter of a SKILL.md.

Owns: reading it, and what the Agent Skills format says of it. Does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import yaml

from armory.openapi.references import BadDescription
from armory.openapi.yamltext import read_yaml
from armory.protocol.rawjson import encode

MAIN = "SKILL.md"
MAX_FRONTMATTER = 64 * 1024
MAX_DESCRIPTION = 1_024
MAX_NAME = 64
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_END = re.compile(rb"^---[ \t]*\r?$", re.MULTILINE)
_MESSAGE_CHARS = 150


class BadSkill(Exception):
    """The skill cannot be served; the message says why."""


def read_frontmatter(data: bytes) -> dict[str, Any]:
    """The YAML between the `---` lines at the beginning of a SKILL.md.

    Raises:
        BadSkill: nothing does, or it cannot be read.
    """
    first, newline, rest = data.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    if first.rstrip() != b"---" or not newline:
        raise BadSkill(f"its {MAIN} does not begin with frontmatter, which a line --- opens")
    end = _END.search(rest[: MAX_FRONTMATTER + 1])
    if end is None:
        raise BadSkill(f"no line --- ends its frontmatter within {MAX_FRONTMATTER // 1024} KiB")
    try:
        read = read_yaml(rest[: end.start()])
        encode(read)
    except (yaml.YAMLError, BadDescription, ValueError, OverflowError, RecursionError) as error:
        said = " ".join(str(error).split())[:_MESSAGE_CHARS]
        raise BadSkill(f"its frontmatter cannot be read: {said}") from None
    if not isinstance(read, dict):
        raise BadSkill("its frontmatter is no object")
    return cast("dict[str, Any]", read)


def format_problem(frontmatter: Mapping[str, Any]) -> str | None:
    """How the frontmatter violates the Agent Skills format; None: it does not.

    Args:
        frontmatter: one without `name` and `description` as texts is left to `skill_problem`.
    """
    name, description = frontmatter.get("name"), frontmatter.get("description")
    if not (name and isinstance(name, str) and isinstance(description, str)):
        return None
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        return f"its name is not of a-z, 0-9 and single hyphens, {MAX_NAME} characters at most"
    if len(description) > MAX_DESCRIPTION:
        return f"its description has more than {MAX_DESCRIPTION:,} characters"
    return None
