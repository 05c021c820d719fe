"""The active installations of each user, in memory: policy narrows the catalog to them.

Owns: loading them before a request is served, and again when packs change. Satisfies
`security.packs.Packs` and `security.authentication.Admission`.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from weakref import WeakValueDictionary

from cachetools import LRUCache, TTLCache
from sqlalchemy import select

from armory.accounts.packs import PACK
from armory.accounts.users import USER, UserSwitchedOff
from armory.domain.principal import Principal
from armory.errors import BackendError
from armory.logger import Logger
from armory.security.packs import NamedPack, PackView
from armory.storage.changes import ChangeFeed
from armory.storage.connection import AsyncConnection
from armory.storage.database import Database
from armory.storage.tables import installations, pack_entries, packs, users
from armory.tasks import Flights

_log = Logger(__name__)
NOTHING = PackView("none")
USERS_KEPT = 50_000
"""Users whose active packs are in memory, those that were admitted last."""
_READ_WITHIN_S = 60.0
"""How long a change of a user is remembered, for readers that began before it."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    view: PackView
    packs: tuple[NamedPack, ...]
    is_active: bool
    is_known: bool
    began: int


class PackScopes:
    """The active packs, servers and tools of the users that this process has served.

    A user that nobody has admitted sees nothing: `admit` comes first.

    Args:
        database: where installations are.
        feed: tells of changes, and whether what is in memory may be used.
    """

    def __init__(self, database: Database, feed: ChangeFeed) -> None:
        self._database = database
        self._feed = feed
        self._observers: list[Callable[[str], None]] = []
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()
        self._same: WeakValueDictionary[str, PackView] = WeakValueDictionary()
        self._packs: dict[str, NamedPack] = {}
        self._flights: Flights[_Loaded] = Flights()
        self._changes = count(1)
        self._changed = TTLCache[str, int](inf, _READ_WITHIN_S)
        self._packs_changed = 0
        self._unread = LRUCache[str, None](USERS_KEPT)
        """Users of whose change it is known, but not what it was."""
        feed.subscribe(USER, self._user_changed)
        feed.subscribe(PACK, self._pack_changed)

    def observe(self, observer: Callable[[str], None]) -> None:
        """Register a callback for users whose view has changed."""
        self._observers.append(observer)

    def view_of(self, user: str) -> PackView:
        """The active entries of `user`; none for a user who was not admitted."""
        loaded = self._loaded.get(user)
        return NOTHING if loaded is None or not loaded.is_active else loaded.view

    def packs_of(self, user: str) -> tuple[NamedPack, ...]:
        """The active packs of `user`, ordered by id; none for a user who was not admitted."""
        loaded = self._loaded.get(user)
        return () if loaded is None or not loaded.is_active else loaded.packs

    async def admit(self, principal: Principal) -> None:
        """Load the active packs of the principal's user, unless those in memory are current.

        Raises:
            UserSwitchedOff: the user was deactivated.
            BackendError: the database could not be asked.
        """
        user = principal.user
        if user is None:
            return
        loaded = self._loaded.get(user)
        if loaded is None or not self._feed.trusted:
            loaded = await self._refresh(user)
        else:
            self._loaded.move_to_end(user)
        if not loaded.is_active:
            raise UserSwitchedOff

    async def _refresh(self, user: str) -> _Loaded:
        return await self._flights.join(user, lambda: self._load(user))

    async def _load(self, user: str) -> _Loaded:
        """Load the present state; read again if a change was announced meanwhile.

        Changes come by two ways, so several loads may run at once: one that began to read before
        another that has ended already is not kept.
        """
        while True:
            before = self._changed.get(user), self._packs_changed
            loaded = await self._read(user)
            if before == (self._changed.get(user), self._packs_changed):
                break
        had = self._loaded.get(user)
        if had is not None and had.began > loaded.began:
            return had
        self._loaded[user] = loaded
        self._loaded.move_to_end(user)
        while len(self._loaded) > USERS_KEPT:
            self._loaded.popitem(last=False)
        changed = had is not None and (had.view, had.packs) != (loaded.view, loaded.packs)
        if changed or user in self._unread:
            self._unread.pop(user, None)
            self._tell(user)
        return loaded

    def _tell(self, user: str) -> None:
        for observer in self._observers:
            observer(user)

    async def _read(self, user: str) -> _Loaded:
        began = next(self._changes)
        async with self._database.read() as connection:
            found = select(users.c.is_active).where(users.c.id == user)
            is_active = (await connection.execute(found)).scalar()
            columns = installations.c
            mine = select(columns.kind, columns.value).where(
                columns.user_id == user, columns.is_active
            )
            items = (await connection.execute(mine)).all()
            named = await self._named(connection, [value for kind, value in items if kind == PACK])
        servers = frozenset(value for kind, value in items if kind == "server")
        tools = frozenset(value for kind, value in items if kind == "tool")
        view = self._view(
            servers.union(*(pack.servers for pack in named)),
            tools.union(*(pack.tools for pack in named)),
        )
        return _Loaded(view, named, is_active is not False, is_active is not None, began)

    async def _named(
        self, connection: AsyncConnection, ids: Sequence[str]
    ) -> tuple[NamedPack, ...]:
        """Packs with their contents; users with the same pack share it in memory."""
        if not ids:
            return ()
        described = select(packs.c.id, packs.c.title, packs.c.description).where(
            packs.c.id.in_(ids)
        )
        columns = pack_entries.c
        listed = select(columns.pack_id, columns.kind, columns.value).where(
            columns.pack_id.in_(ids)
        )
        entries: dict[str, dict[str, list[str]]] = {}
        for pack, kind, value in await connection.execute(listed):
            entries.setdefault(pack, {}).setdefault(kind, []).append(value)
        found: list[NamedPack] = []
        for pack, title, description in await connection.execute(described.order_by(packs.c.id)):
            has = entries.get(pack, {})
            servers, tools = frozenset(has.get("server", ())), frozenset(has.get("tool", ()))
            made = NamedPack(pack, title, description, servers, tools)
            if self._packs.get(pack) != made:
                self._packs[pack] = made
            found.append(self._packs[pack])
        return tuple(found)

    def _view(self, servers: frozenset[str], tools: frozenset[str]) -> PackView:
        if not servers and not tools:
            return NOTHING
        text = "\n".join(["s", *sorted(servers), "t", *sorted(tools)])
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        return self._same.setdefault(key, PackView(key, servers, tools))

    async def _user_changed(self, user: str) -> None:
        self._changed[user] = next(self._changes)
        self._flights.forget(user)
        if user not in self._loaded:
            return
        try:
            if not (await self._refresh(user)).is_known:
                self._loaded.pop(user, None)  # deleted: like any that was not met
        except BackendError as error:  # asked again before the next request of this user
            self._loaded.pop(user, None)
            self._unread[user] = None
            self._tell(user)
            _log.warning("packs_not_reloaded", error=error.message)

    async def _pack_changed(self, pack: str) -> None:
        self._packs_changed += 1  # whoever is just being read may have it, too
        self._packs.pop(pack, None)
        having = [
            user
            for user, known in self._loaded.items()
            if any(pack == one.id for one in known.packs)
        ]
        for user in having:
            await self._user_changed(user)
