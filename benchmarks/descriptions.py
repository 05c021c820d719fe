"""Do real OpenAPI descriptions load, with how many tools, and what of them does not, and why?

`python -m benchmarks.descriptions FOLDER [--each] [--json] [--sample N]` reads every file below a
folder that says to be a description (`.json`, `.yaml`, `.yml`), checks each tool's schema, and
writes the request of a call with made-up arguments. It sends nothing. It ends with 1 where
something failed without saying why.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from armory.openapi.document import BadDescription, Document, read_document
from armory.openapi.operation import Operation
from armory.openapi.operations import read_operations
from armory.openapi.requests import request_for
from armory.openapi.styles import BadArguments

KINDS = (".json", ".yaml", ".yml")
_SAYS = re.compile(rb"""^\s*\{?\s*["']?(openapi|swagger)["']?\s*:\s*["']?(\d[\d.]*)""", re.M)
_NAMES = re.compile(
    r"'[^']*'|\"[^\"]*\"|#/\S+|\S+\.ya?ml\S*|\S+\.json\S*|\{[^}]*\}|\d[\d,]*|https?://\S+"
)
_LEVELS = 24


@dataclass
class Read:
    """What came of one file.

    Attributes:
        says: its version.
        why: why it is none that can be used; "": it is one.
        tools: how many it has.
        asks_for_base: whether it does not say where the API is.
        bytes: of all definitions.
        seconds: CPU time.
        left_out: operation and reason.
        wrong: what should never be: a schema that is none, a request that cannot be written.
    """

    file: str
    says: str
    why: str = ""
    tools: int = 0
    asks_for_base: bool = False
    bytes: int = 0
    seconds: float = 0.0
    left_out: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    wrong: list[str] = field(default_factory=list[str])


def descriptions(folder: Path) -> Iterator[tuple[Path, bytes, str]]:
    """The files that say to be one, with their bytes and versions."""
    for file in sorted(folder.rglob("*")):
        if file.suffix.lower() in KINDS and file.is_file():
            data = file.read_bytes()
            found = _SAYS.search(data)
            if found:
                yield file, data, found[2].decode()


def read(name: str, data: bytes, says: str, sample: int = 1) -> Read:
    """What one description gives; each `sample`-th tool is looked at closely."""
    found = Read(name, says)
    started = time.process_time()
    try:
        document = read_document(data)
        found.asks_for_base = not _says_where(document)
        operations = read_operations(document)
    except BadDescription as problem:
        found.why = str(problem)
        return found
    except Exception:  # noqa: BLE001 - it is what is looked for
        found.wrong.append(traceback.format_exc(limit=-3))
        return found
    finally:
        found.seconds = round(time.process_time() - started, 3)
    found.left_out = operations.left_out
    found.tools = len(operations.by_name)
    if not operations.by_name:
        found.why = "it has no operation that can be called"
    for number, operation in enumerate(operations.by_name.values()):
        found.bytes += len(json.dumps(operation.tool))
        if number % sample == 0:
            found.wrong += _wrong(operation)
    return found


def _says_where(document: Document) -> bool:
    try:
        document.base_url(None)
    except BadDescription:
        return False
    return True


def _wrong(operation: Operation) -> Iterator[str]:
    schema = cast("Mapping[str, Any]", operation.tool["inputSchema"])
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path))
        yield f"{operation.name}: {place}: {error.message[:200]}"
        return
    for every in (False, True):
        arguments = {
            name: made_up(part)
            for name, part in schema["properties"].items()
            if every or name in operation.required
        }
        try:
            request_for(operation, arguments)
        except BadArguments as error:
            yield f"{operation.name}: {error}"
        except Exception:  # noqa: BLE001 - it is what is looked for
            yield f"{operation.name}: {traceback.format_exc(limit=-2)}"


def made_up(schema: Any, level: int = 0) -> Any:
    """A value that a schema would take, roughly."""
    if not isinstance(schema, dict) or level > _LEVELS:
        return "x"
    part = cast("dict[str, Any]", schema)
    if part.get("enum"):
        return part["enum"][0]
    if "const" in part:
        return part["const"]
    for word in ("oneOf", "anyOf", "allOf"):
        if part.get(word) and "properties" not in part:
            return made_up(part[word][0], level + 1)
    kind = part.get("type")
    if isinstance(kind, list):
        kind = cast("list[Any]", kind)[0]
    if kind == "object" or "properties" in part:
        members = cast("dict[str, Any]", part.get("properties") or {})
        return {name: made_up(inner, level + 1) for name, inner in members.items()}
    if kind == "array":
        return [made_up(part.get("items"), level + 1)]
    plain: dict[Any, Any] = {"integer": 1, "number": 1.5, "boolean": True, "null": None}
    return plain.get(kind, "eA==")


def report(found: list[Read], *, each: bool) -> str:
    """All of it in words."""
    lines: list[str] = []
    loaded = [one for one in found if one.tools]
    if each:
        lines += [
            f"{one.file}: OpenAPI {one.says}, {one.tools} tools, {len(one.left_out)} left out, "
            f"{one.seconds} s{f'; {one.why}' if one.why else ''}"
            for one in found
        ]
    lines.append(
        f"{len(found)} descriptions, {len(loaded)} load: {sum(one.tools for one in loaded)} tools, "
        f"{sum(one.asks_for_base for one in loaded)} of them need base_url; "
        f"{sum(one.seconds for one in found):.1f} s of CPU time, "
        f"{max((one.seconds for one in found), default=0):.1f} s for one at most"
    )
    whys = Counter(_NAMES.sub("…", one.why) for one in found if one.why)
    lines += [f"  not loaded, {count}: {why}" for why, count in whys.most_common()]
    reasons = Counter(_NAMES.sub("…", why) for one in found for _, why in one.left_out)
    lines += [f"  operations left out, {count}: {why}" for why, count in reasons.most_common()]
    lines += [f"  WRONG {one.file}: {wrong}" for one in found for wrong in one.wrong]
    return "\n".join(lines)


def main() -> int:
    """Read the arguments, and a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--each", action="store_true", help="a line for each file")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sample", type=int, default=1, help="check each n-th tool: it is slow")
    chosen = parser.parse_args()
    found = [
        read(str(file.relative_to(chosen.folder)), data, says, chosen.sample)
        for file, data, says in descriptions(chosen.folder)
    ]
    print(
        json.dumps([asdict(o) for o in found]) if chosen.json else report(found, each=chosen.each)
    )
    return 1 if any(one.wrong for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
