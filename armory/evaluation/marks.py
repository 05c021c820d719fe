"""Queries that people label in the console: a set that `eval` and `tune` accept.

Owns: the folder with `queries.jsonl` and `tools.jsonl`, and how a mark changes them. Never imports
retrieval.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from armory.domain.tool import ToolRecord
from armory.errors import BackendError
from armory.files import replacing

QUERIES, TOOLS, UNDECIDED = "queries.jsonl", "tools.jsonl", "undecided.jsonl"


@dataclass(frozen=True, slots=True)
class Marked:
    """One query with its labels.

    Attributes:
        query: its text.
        right: names of the tools that it wants.
        wrong: names of tools that it does not want.
        none: whether no tool fits it.
    """

    query: str
    right: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    none: bool = False

    @property
    def decided(self) -> bool:
        """Whether the labels suffice for measuring."""
        return self.none or bool(self.right)

    def with_label(self, tool: str | None, right: bool | None) -> Marked:
        """The query with one more label; see `MarkedQueries.mark`."""
        if tool is None:
            return Marked(self.query, none=right is False)
        rights = tuple(name for name in self.right if name != tool)
        wrongs = tuple(name for name in self.wrong if name != tool)
        if right is True:
            rights = (*rights, tool)
        elif right is False:
            wrongs = (*wrongs, tool)
        return Marked(self.query, rights, wrongs, self.none and not rights)

    @property
    def row(self) -> dict[str, Any]:
        """The row of `queries.jsonl`."""
        digest = hashlib.sha256(self.query.encode("utf-8", "replace")).hexdigest()[:12]
        row: dict[str, Any] = {"id": digest, "query": self.query, "relevant": list(self.right)}
        return row | ({"wrong": list(self.wrong)} if self.wrong else {})


class MarkedQueries:
    """A labelled set that grows with each mark.

    A query with only wrong tools cannot be used for measuring: it is kept in `undecided.jsonl`
    beside the set until a right tool is marked, or that none fits.

    Args:
        folder: made on the first mark.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Marked]:
        """Every query that was marked, oldest first.

        Raises:
            BackendError: the files cannot be read.
        """
        found = [_marked(row, whole=True) for row in _rows(self.folder / QUERIES)]
        return found + [_marked(row, whole=False) for row in _rows(self.folder / UNDECIDED)]

    def mark(
        self, query: str, tool: str | None, right: bool | None, tools: Iterable[ToolRecord]
    ) -> Marked:
        """Label a tool as wanted or not wanted by a query.

        Args:
            query: the text.
            tool: exposed name; None: of all tools, which with `right=False` means that none fits.
            right: None takes back what was said.
            tools: the catalog, for `tools.jsonl`; tools that earlier marks name stay in it.

        Raises:
            BackendError: the files cannot be written.
        """
        known = {marked.query: marked for marked in self.all()}
        after = known[query] = known.get(query, Marked(query)).with_label(tool, right)
        try:
            self._write_all(known.values(), tools)
        except OSError as error:
            raise BackendError(
                f"{self.folder} cannot be written: {error.strerror or error}"
            ) from error
        return after

    def _write_all(self, every: Collection[Marked], tools: Iterable[ToolRecord]) -> None:
        decided = [marked for marked in every if marked.decided]
        rest = [marked for marked in every if marked.wrong and not marked.decided]
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write_tools(tools, {name for marked in decided for name in marked.right})
        _write(self.folder / QUERIES, [marked.row for marked in decided])
        _write(self.folder / UNDECIDED, [marked.row for marked in rest])

    def _write_tools(self, tools: Iterable[ToolRecord], wanted: set[str]) -> None:
        path = self.folder / TOOLS
        rows = {tool.name: _tool_row(tool) for tool in tools}
        for row in _rows(path):
            name = str(row.get("id"))
            if name in wanted and name not in rows:
                rows[name] = dict(row)
        _write(path, rows.values())


def _tool_row(tool: ToolRecord) -> dict[str, Any]:
    row: dict[str, Any] = {**tool.definition, "id": tool.name, "name": tool.original_name}
    row |= {"server": tool.server, "server_title": tool.server_title}
    row |= {"server_about": tool.server_about}
    row |= {"description": tool.description, "tags": list(tool.tags), "category": tool.category}
    return row


def _marked(row: Mapping[str, Any], *, whole: bool) -> Marked:
    right = tuple(map(str, row.get("relevant") or ()))
    wrong = tuple(map(str, row.get("wrong") or ()))
    return Marked(str(row.get("query", "")), right, wrong, whole and not right)


def _rows(path: Path) -> list[Mapping[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        rows: list[object] = [json.loads(line) for line in text.split("\n") if line.strip()]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise BackendError(f"{path} cannot be read: {error}") from error
    return [cast("Mapping[str, Any]", row) for row in rows if isinstance(row, dict)]


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with replacing(path) as file:
        for row in rows:
            file.write(json.dumps(row).encode() + b"\n")
