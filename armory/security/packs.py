"""The part of the catalog that a user's active packs contain, for policy.

Owns: `PackView`, `NamedPack` and the Protocol behind them. `accounts` has the packs themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from armory.domain.naming import beginnings, split_name, split_uri
from armory.domain.tool import ListedRecord, ToolRecord


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PackView:
    """The servers and tools that a user has active.

    Attributes:
        key: stable text; views with equal keys are equal.
        servers: server keys whose everything is in it.
        tools: exposed names of single tools.
    """

    key: str
    servers: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()

    def has_any_of(self, server: str) -> bool:
        """Whether anything of a server is included."""
        begin = beginnings(server)[0]
        return server in self.servers or any(name.startswith(begin) for name in self.tools)

    def includes_listed(self, record: ToolRecord | ListedRecord) -> bool:
        """Whether a tool or a prompt is included."""
        if record.server in self.servers:
            return True
        return isinstance(record, ToolRecord) and record.name in self.tools

    def includes(self, name: str) -> bool:
        """Whether an exposed name or URI is included; a name that a tool and a prompt could have
        counts as the tool.
        """
        if name in self.tools:
            return True
        parts = split_name(name) or split_uri(name)
        return parts is not None and parts[0] in self.servers


@dataclass(frozen=True, slots=True)
class NamedPack:
    """One active pack, with its title and description.

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
        """Whether a tool is included."""
        return server in self.servers or name in self.tools


class Packs(Protocol):
    """The active packs of every user; answers from memory."""

    def view_of(self, user: str) -> PackView:
        """What `user` has active; nothing for an unknown user."""
        ...

    def packs_of(self, user: str) -> Sequence[NamedPack]:
        """The active packs of `user`, ordered by id; none for an unknown user."""
        ...
