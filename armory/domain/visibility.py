"""The part of the catalog that an endpoint offers, and the part of it that a principal may see.

Owns: `Scope` and `VisibleCatalog`, as values; policy decides. Never imports anything but its
domain siblings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from armory.domain.naming import Patterns
from armory.domain.query import VisibleSet

Kind = Literal["tools", "prompts", "resources", "templates", "skills"]
"""What a catalog holds, as its fields are called."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the catalog that an endpoint offers: whole servers plus single tools.

    Attributes:
        key: unique name of the scope; scopes with equal keys are equal.
        servers: server keys; None together with `tools` None means everything.
        tools: glob patterns over exposed tool names, beside those of `servers`.
    """

    key: str = "all"
    servers: frozenset[str] | None = None
    tools: tuple[str, ...] | None = None
    _tools: Patterns = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tools", Patterns(self.tools or ()))

    @property
    def everything(self) -> bool:
        """Whether the scope is the whole catalog."""
        return self.servers is None and self.tools is None

    def has_server(self, server: str) -> bool:
        """Whether everything of `server` is in scope."""
        if self.servers is None:
            return self.tools is None
        return server in self.servers

    def has_tool(self, server: str, name: str) -> bool:
        """Whether the tool `name` of `server` is in scope."""
        return self.has_server(server) or self._tools.match(name)


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True, eq=False)
class VisibleCatalog:
    """What one profile sees at one endpoint. One object per (snapshot, profile, scope).

    Attributes:
        tools: exposed tool names, as retrieval takes them.
        prompts, resources, templates, skills: exposed names and URIs.
    """

    tools: VisibleSet
    prompts: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    templates: frozenset[str] = frozenset()
    skills: frozenset[str] = frozenset()

    @property
    def anything(self) -> bool:
        """Whether it has any entry."""
        kinds = (self.tools.names, self.prompts, self.resources, self.templates, self.skills)
        return any(kinds)

    def names(self, kind: Kind) -> frozenset[str]:
        """The exposed names or URIs of one kind."""
        return self.tools.names if kind == "tools" else getattr(self, kind)
