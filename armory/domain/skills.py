"""The entry of one skill (SEP-2640), as an upstream lists it and as clients see it.

Owns: what makes an entry one that hosts may load, and its exposed form. Never imports anything but
the domain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from armory.domain.naming import expose_uri

DYNAMIC = "dynamic"
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
_MAIN = "/SKILL.md"
_SEPARATOR = re.compile("[/:]")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def skill_problem(entry: Mapping[str, Any]) -> str | None:
    """Why a host could not load a skill, in words; None: it could.

    Args:
        entry: with a `uri` that is text.
    """
    uri, frontmatter = entry["uri"], entry.get("frontmatter")
    if not uri.endswith(_MAIN):
        return "its uri does not end in /SKILL.md"
    if not isinstance(frontmatter, dict):
        return "its frontmatter is no object"
    said = cast("dict[str, Any]", frontmatter)
    for name in ("name", "description"):
        if not isinstance(said.get(name), str) or not said[name]:
            return f"its frontmatter has no {name}"
    folder = uri[: -len(_MAIN)]
    if _SEPARATOR.split(folder)[-1] != said["name"]:
        return f"its folder is not called {said['name']!r}, as its frontmatter says"
    files = entry.get("resources")
    if files == DYNAMIC:
        return None
    if not isinstance(files, list):
        return 'its resources are neither a list nor "dynamic"'
    return _files_problem(cast("list[Any]", files), uri, folder)


def _files_problem(files: list[Any], uri: str, folder: str) -> str | None:
    seen: set[str] = set()
    size = 0
    for file in files:
        if not isinstance(file, dict):
            return "one of its resources is no object"
        known = cast("dict[str, Any]", file)
        name, digest, length = known.get("uri"), known.get("digest"), known.get("size")
        if not isinstance(name, str) or not name.startswith(f"{folder}/"):
            return "one of its resources is not below its folder"
        if name in seen:
            return f"{name[:200]} is listed twice"
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            return f"{name[:200]} has no digest of the form sha256:<64 hexadecimal digits>"
        if isinstance(length, bool) or not isinstance(length, int) or length < 0:
            return f"{name[:200]} has no size in bytes"
        seen.add(name)
        size += length
    if uri not in seen:
        return "its resources lack its SKILL.md"
    return size_problem(len(seen), size)


def size_problem(files: int, size: int) -> str | None:
    """Why a host could not load a skill with this many files and bytes in total; None: it could."""
    if files > MAX_FILES:
        return f"it has {files:,} files; hosts take {MAX_FILES}"
    if size > MAX_BYTES:
        return f"it has {size:,} bytes; hosts take {MAX_BYTES:,}"
    return None


def exposed_skill(entry: Mapping[str, Any], server: str) -> dict[str, Any]:
    """The entry with every URI in its exposed form; digests, sizes and frontmatter are
    unchanged.
    """
    files = entry.get("resources")
    if isinstance(files, list):
        named = cast("list[dict[str, Any]]", files)
        files = [{**file, "uri": expose_uri(server, file["uri"])} for file in named]
    return {**entry, "uri": expose_uri(server, entry["uri"]), "resources": files}
