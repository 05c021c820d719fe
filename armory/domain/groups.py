"""Groups of tools that an upstream itself defines (draft `io.modelcontextprotocol/groups`).

Owns: `OwnGroup`. Never imports anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OwnGroup:
    """One group of an upstream, with its subgroups.

    Attributes:
        name: as the upstream calls it; unique there.
        title, description, instructions: as the upstream gives them; "": it does not.
        tools: original names.
        groups: those inside it.
    """

    name: str
    title: str = ""
    description: str = ""
    instructions: str = ""
    tools: tuple[str, ...] = ()
    groups: tuple[OwnGroup, ...] = ()

    def everything(self) -> Iterator[str]:
        """The original names of its tools and of those in its subgroups."""
        yield from self.tools
        for group in self.groups:
            yield from group.everything()
