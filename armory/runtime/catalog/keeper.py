"""Keeps the served snapshot current: from upstream lists to a snapshot, indexed and published.

Owns: the task between the supervisor's news and `Gateway.publish`; `indexing` has the other. Never
imports a transport.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from armory import tasks
from armory.domain.catalog import EMPTY, Catalog, ServerLists, ToolRules, large
from armory.domain.catalog_builder import CatalogBuilder, build_catalog
from armory.domain.tool import ToolRecord
from armory.logger import Logger
from armory.runtime.catalog.indexing import IndexUpdater
from armory.security.pinning import Pinning
from armory.threads import SWITCH_INTERVAL, in_turn, in_turn_if, let_go

if TYPE_CHECKING:
    from armory.accounts.registered_tools import Searchable

_log = Logger(__name__)
Lists = Callable[[], Mapping[str, ServerLists]]
Publish = Callable[[Catalog], None]
Examples = Callable[[ToolRecord], tuple[str, ...]]
SETTLE_S = 0.02
FIRST_INDEX_S, INDEX_S = 20.0, 3.0
"""How long the first snapshot waits until its tools are searchable, and each later one."""
SHRUNK = 10_000
"""If a snapshot has so many entries fewer than the one before, their memory is given back to the
system."""
REPORTED = 20
"""Problems of one upstream's lists that are logged one by one."""
_PROBLEM_CHARS = 300
STORE_AGAIN_S = 60.0
"""Seconds until pins that could not be stored are stored again: the disk may have room by then."""
TRIM_AFTER_S = 5.0
"""How long requests that began on the snapshot before may still hold it."""


class CatalogKeeper:
    """Builds and publishes snapshots.

    A snapshot is published as soon as its tools are indexed, or after a few seconds without
    waiting longer: a slow embedder delays finding a new tool, never listing and calling it.

    Satisfies `gateway.ports.PrivateTools`.

    Args:
        retriever: None: nothing is searched.
        rules: what the configuration says about each upstream's tools.
        pinning: withholds tools whose definition changed; None: nothing is withheld.
        give_back: called in a thread when a snapshot has become much smaller; None: nothing is.
        examples: gives the queries that were written for a tool once it is searchable; None: none
            ever are.
    """

    def __init__(
        self,
        retriever: Searchable | None,
        rules: Mapping[str, ToolRules],
        pinning: Pinning | None = None,
        give_back: Callable[[], object] | None = None,
        examples: Examples | None = None,
    ) -> None:
        self._index = IndexUpdater(retriever, self._indexed_late)
        self._rules = dict(rules)
        self._pinning = pinning
        self._give_back = give_back
        self._examples = examples
        self._with_examples: dict[str, tuple[ToolRecord, ToolRecord]] = {}
        self._private: Sequence[ToolRecord] = ()
        self._catalog = EMPTY
        self._builder = CatalogBuilder()
        self._prepare: Publish | None = None
        self._again = False
        self._dirty = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._trimming: asyncio.Task[None] | None = None
        self._storing: asyncio.Task[None] | None = None
        self._reported: set[str] = set()
        self._asked = 0
        self._built = 0
        self._progress = asyncio.Condition()

    def start(self, lists: Lists, publish: Publish, prepare: Publish | None = None) -> None:
        """Start working.

        Args:
            lists: gives the last good lists of all upstreams.
            publish: serves a snapshot.
            prepare: does what takes long of that, in a thread, where the snapshot is large.
        """
        self._prepare = prepare
        self._tasks = [
            tasks.spawn(self._build(lists, publish), "building snapshots"),
            tasks.spawn(self._index.run(), "indexing tools"),
        ]

    async def stop(self) -> None:
        """Cancel the tasks."""
        await tasks.stop(*self._tasks, self._trimming, self._storing)
        self._tasks = []

    @property
    def indexing(self) -> int:
        """The number of tools of the newest snapshot while they are being indexed; 0: all are
        searchable.
        """
        return self._index.pending

    async def searchable(self) -> None:
        """Returns when the newest snapshot's tools are searchable, or failed to be."""
        await self._index.done()

    @property
    def pinning(self) -> Pinning | None:
        """The pinning, which withholds tools whose definition changed."""
        return self._pinning

    async def approved(self) -> None:
        """A withheld definition was approved; returns when it is served."""
        self._again = True
        await self.settle()

    def changed(self, _server: str = "", _lists: ServerLists | None = None) -> None:
        """A list changed: build a new snapshot soon."""
        self._asked += 1
        self._dirty.set()

    def build_again(self) -> None:
        """Build a new snapshot soon though no list changed: example queries were written, a
        definition was approved, or the rules changed.
        """
        self._again = True
        self.changed()

    async def settle(self) -> None:
        """Build a snapshot of the current lists; returns when it is served."""
        self.changed()
        wanted = self._asked
        async with self._progress:
            await self._progress.wait_for(lambda: self._built >= wanted)

    def reconfigure(self, rules: Mapping[str, ToolRules]) -> None:
        """Use other rules about tools from now on; approvals from elsewhere are read again."""
        self._rules = dict(rules)
        self.build_again()

    def build_private(self, lists: Mapping[str, ServerLists], shared: Catalog) -> Catalog:
        """As `PrivateTools.build_private`."""
        catalog, _ = build_catalog(lists, self._rules, shared)
        pinning = self._pinning
        if pinning is None:
            return catalog
        kept = {name: tool for name, tool in catalog.tools.items() if not pinning.withholds(tool)}
        return replace(catalog, tools=kept)

    async def index_private(self, tools: tuple[ToolRecord, ...]) -> None:
        """As `PrivateTools.index_private`."""
        self._private = tools
        await self._update_index(self._catalog)

    async def _build(self, lists: Lists, publish: Publish) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(SETTLE_S)  # upstreams tend to answer together
            self._dirty.clear()
            asked = self._asked
            try:
                with SWITCH_INTERVAL.short():
                    await self._renew(lists(), publish)
            except Exception:  # noqa: BLE001 - whatever a list holds, the next one gets its turn
                _log.exception("snapshot_failed")
                self._again = True  # what is known by now is not served
            async with self._progress:
                self._built = asked
                self._progress.notify_all()

    async def _renew(self, lists: Mapping[str, ServerLists], publish: Publish) -> None:
        """Publish a new snapshot, if anything differs."""
        again, self._again = self._again, False
        lists = dict(lists)
        work = partial(self._builder.build, lists, self._rules, self._catalog)
        is_large = large((*lists.values(), *self._catalog.servers.values()))
        catalog, problems = await in_turn_if(is_large, work)
        self._report(problems)
        if again and catalog is self._catalog:
            catalog = replace(catalog, version=catalog.version + 1)
        if catalog is self._catalog:
            return
        old = [*self._catalog.tools.values()] if is_large else []
        del work
        before, now = self._catalog.servers.values(), lists.values()
        shrunk = sum(one.entries for one in before) - sum(one.entries for one in now)
        self._catalog = catalog
        catalog = await self._without_withheld(catalog)
        await self._update_index(catalog, is_large)
        if self._examples is not None:
            catalog = await in_turn(self._with_written_examples, catalog, self._examples)
        if is_large and self._prepare is not None:
            await in_turn(self._prepare, catalog)
        publish(catalog)
        if shrunk >= SHRUNK and self._give_back is not None:
            await tasks.stop(self._trimming)
            self._trimming = tasks.spawn(self._trim(self._give_back), "giving memory back")
        _log.info(
            "catalog_published",
            version=catalog.version,
            servers=len(catalog.servers),
            tools=len(catalog.tools),
        )
        let_go(old)

    async def _trim(self, give_back: Callable[[], object]) -> None:
        """Return memory of the previous snapshot to the system, once nothing refers to
        it any more.
        """
        await asyncio.sleep(TRIM_AFTER_S)
        held = self._index.behind
        await asyncio.to_thread(give_back)
        if held:  # by the index, too
            await self._index.done()
            await asyncio.sleep(TRIM_AFTER_S)
            await asyncio.to_thread(give_back)

    async def _without_withheld(self, catalog: Catalog) -> Catalog:
        """The snapshot without the tools that pinning withholds."""
        if self._pinning is None:
            return catalog
        try:
            return await in_turn(self._pinning.admit, catalog)
        except OSError as error:
            _log.error("pins_not_stored", error=str(error))
            if self._storing is None or self._storing.done():
                self._storing = tasks.spawn(self._store(), "storing pins")
            return await in_turn(self._pinning.judged, catalog)

    async def _store(self) -> None:
        """Write the pins, retrying until it works: after a restart without them, any definition
        would be accepted as the first.
        """
        while True:
            await asyncio.sleep(STORE_AGAIN_S)
            with suppress(OSError):
                if self._pinning is not None:
                    await in_turn(self._pinning.store)
                return

    def _with_written_examples(self, catalog: Catalog, examples: Examples) -> Catalog:
        """The snapshot with the example queries of its tools; unchanged records are reused."""
        before, self._with_examples = self._with_examples, {}
        tools: dict[str, ToolRecord] = {}
        for name, tool in catalog.tools.items():
            tools[name], written = tool, examples(tool)
            if written:
                known = before.get(name)
                if known is None or known[0] is not tool or known[1].examples != written:
                    known = tool, replace(tool, examples=written)
                self._with_examples[name] = known
                tools[name] = known[1]
        return replace(catalog, tools=tools) if self._with_examples else catalog

    async def _update_index(self, catalog: Catalog, is_large: bool = False) -> None:
        """Index all tools that searches may find; each search narrows them by itself."""
        tools = await in_turn_if(is_large, searchable_records, catalog, self._private)
        await self._index.update(tools, INDEX_S if catalog.version > 1 else FIRST_INDEX_S)

    def _indexed_late(self) -> None:
        """Tools became searchable after their snapshot was published."""
        if self._examples is not None:  # it lacks what was written for them
            self.build_again()

    def _report(self, problems: Sequence[str]) -> None:
        """Log new problems; many of one server as a number."""
        new = Counter[str]()
        for problem in problems:
            if problem not in self._reported:
                new[server := problem.partition(":")[0]] += 1
                if new[server] <= REPORTED:
                    _log.warning("catalog_problem", problem=problem[:_PROBLEM_CHARS])
        for server, count in new.items():
            if count > REPORTED:
                _log.warning("catalog_problems", upstream=server, problems=count)
        self._reported = set(problems)


def searchable_records(catalog: Catalog, private: Sequence[ToolRecord]) -> list[ToolRecord]:
    """All tools and skills that searches may find, one by one: a list of 100,000 in one step keeps
    all other threads waiting.
    """
    kinds = (catalog.tools.values(), catalog.skills.values(), private)
    return [record for records in kinds for record in records]
