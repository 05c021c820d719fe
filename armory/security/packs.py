"""What users' active packs leave of the catalog, as policy asks for it.

Owns: `PackView`, `NamedPack` and the Protocol behind them. `accounts` has the packs themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from armory.domain.naming import beginnings, split_name, split_uri


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PackView:
    """What a user's active packs and servers leave of the catalog.

    Attributes:
        key: stable text; views with equal keys are equal.
        servers: server keys whose everything is in it.
        tools: exposed names of single tools.
    """

    key: str
    servers: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()

    def has_any_of(self, server: str) -> bool:
        """Whether anything of a server is in it."""
        begin = beginnings(server)[0]
        return server in self.servers or any(name.startswith(begin) for name in self.tools)

    def includes(self, name: str, server: str | None = None) -> bool:
        """Whether an exposed name or URI is in it.

        `server`: whose it is, where that is known: a name that was cut may not tell.
        """
        if name in self.tools:
            return True
        if server is None:
            parts = split_name(name) or split_uri(name)
            return parts is not None and parts[0] in self.servers
        return server in self.servers


@dataclass(frozen=True, slots=True)
class NamedPack:
    """One active pack, with what people call it.

    Attributes:
        id: unique among packs.
        title, description: for people.
        servers: server keys whose everything is in it.
        tools: exposed names of single tools.
    """

    id: str
    title: str
    description: str = ""
    servers: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()

    def has_tool(self, server: str, name: str) -> bool:
        """Whether the tool `name` of `server` is in it."""
        return server in self.servers or name in self.tools


class Packs(Protocol):
    """The active packs of every user; answers from memory."""

    def view_of(self, user: str) -> PackView:
        """What `user` has active; an unknown user has nothing."""
        ...

    def packs_of(self, user: str) -> Sequence[NamedPack]:
        """The packs that `user` has active, by id; an unknown user has none."""
        ...
