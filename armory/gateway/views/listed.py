"""The encoded definitions of one catalog, from which listings are built; each is encoded once.

Owns: `ListedBytes`: what of an older catalog is taken over, and which joined lists are kept. Never
decides what a caller sees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import islice

from cachetools import LRUCache

from armory.domain.catalog import Catalog, replaced
from armory.domain.tool import ListedRecord, ToolRecord
from armory.domain.visibility import VisibleCatalog
from armory.gateway.views.definitions import Form, Kind, listed_bytes, tool_bytes

JOINED_BYTES = 256 << 20
"""Joined lists that are kept: with packs every user may see another one."""
ESTIMATED_ABOVE = 2_000
_SAMPLE = 500
"""Tools from which the size of a longer list is estimated."""
_SIZES_KEPT = 10_000
_Key = tuple[str, Form, str]


class ListedBytes:
    """The encoded definitions of one catalog.

    Args:
        catalog: whose definitions they are.
        previous: those of the catalog before, taken over where nothing changed; None: there was
            none.
        joined_bytes: joined lists are kept up to so many bytes.
    """

    def __init__(
        self,
        catalog: Catalog,
        previous: ListedBytes | None,
        *,
        joined_bytes: int,
    ) -> None:
        self._catalog = catalog
        self._tools: dict[Form, dict[str, bytes]] = {}
        self._before: ListedBytes | None = None
        if previous is not None:
            if previous._catalog.tools is catalog.tools:  # only rules or settings are others
                self._tools = previous._tools
            elif previous._catalog.version < catalog.version:
                self._tools = previous._had_by(catalog)  # the old catalog may be large: let it go
            else:
                self._before = previous
        self._joined = LRUCache[_Key, bytes](joined_bytes, getsizeof=len)
        self._sizes = LRUCache[tuple[str, Form], int](_SIZES_KEPT)

    def tool(self, name: str, form: Form) -> bytes:
        """One tool as listed."""
        known = self._tools.setdefault(form, {})
        data = known.get(name)
        if data is None:
            record = self._catalog.tools[name]
            data = self._inherited(form, record) or tool_bytes(record, form)
            known[name] = data
        return data

    def tools(self, names: Iterable[str], form: Form, pinned: Collection[str] = ()) -> bytes:
        """Several tools as JSON items, comma-separated, in the order given; pinned ones are marked
        to be loaded always.
        """
        if not pinned:
            return b",".join([self.tool(name, form) for name in names])
        always, loaded = frozenset(pinned), replace(form, load=True)
        return b",".join([self.tool(name, loaded if name in always else form) for name in names])

    def all_tools(self, visible: VisibleCatalog, form: Form, pinned: Collection[str] = ()) -> bytes:
        """All visible tools likewise, in catalog order; cached per visible set.

        Args:
            visible: what the caller sees.
            form: how it is listed.
            pinned: all of it that is pinned, or nothing.
        """

        def joined() -> bytes:
            names = [name for name in self._catalog.tools if name in visible.tools.names]
            return self.tools(names, form, pinned)

        return self.once((visible.tools.key, form, "marked" if pinned else "tools"), joined)

    def all_of(self, kind: Kind, visible: VisibleCatalog, form: Form) -> bytes:
        """All visible prompts, resources, templates or skills likewise."""

        def joined() -> bytes:
            records: Mapping[str, ListedRecord | ToolRecord] = getattr(self._catalog, kind)
            names = visible.names(kind)
            shown = [listed_bytes(r, kind, form) for name, r in records.items() if name in names]
            return b",".join(shown)

        return self.once((visible.tools.key, form, kind), joined)

    def size_of(self, visible: VisibleCatalog, form: Form, *, estimated: bool = False) -> int:
        """Bytes of all visible tools as listed. For thousands it is estimated from a sample, since
        encoding all would hold the event loop.

        Args:
            visible: what the caller sees.
            form: how it is listed.
            estimated: likewise of hundreds, for whoever lists them not even once.
        """
        count = len(visible.tools)
        if count <= (_SAMPLE if estimated else ESTIMATED_ABOVE):
            return len(self.all_tools(visible, form))
        key = (visible.tools.key, form)
        size = self._sizes.get(key)
        if size is None:
            every = max(1, count // _SAMPLE)  # in the catalog's order, which replicas share
            each = islice(self._catalog.tools, 0, None, every)
            some = [name for name in each if name in visible.tools.names]
            some = some or list(islice(visible.tools.names, 1))
            size = sum(len(self.tool(name, form)) + 1 for name in some) * count // len(some)
            self._sizes[key] = size
        return size

    def once(self, key: _Key, make: Callable[[], bytes]) -> bytes:
        """The cached value for (visible set, form, what), made now if it is missing."""
        data = self._joined.get(key)
        if data is None:
            data = make()
            if len(data) <= self._joined.maxsize:
                self._joined[key] = data
        return data

    def _had_by(self, catalog: Catalog) -> dict[Form, dict[str, bytes]]:
        """Reusable encoded definitions for the tools that another catalog has, too; in
        any thread.
        """
        ours, theirs = self._catalog.tools, catalog.tools
        others = replaced(ours, theirs)
        if others is not None:
            gone = [name for name in others if not _same(theirs[name], ours[name])]
            found = {form: known.copy() for form, known in self._tools.copy().items()}
            for known in found.values():
                for name in gone:
                    known.pop(name, None)
            return found
        return {
            form: {
                name: data
                for name, data in known.copy().items()
                if (tool := theirs.get(name)) is not None and _same(tool, ours[name])
            }
            for form, known in self._tools.copy().items()
        }

    def _inherited(self, form: Form, record: ToolRecord) -> bytes | None:
        before = self._before
        if before is None:
            return None
        old = before._catalog.tools.get(record.name)
        if old is None or not _same(old, record):
            return None
        return before._tools.get(form, {}).get(record.name)


def _same(one: ToolRecord, other: ToolRecord) -> bool:
    return one is other or (one == other and one.examples == other.examples)
