"""A retrieval query, and the tools that it may find.

Owns: the Query value and its limits. Never imports anything but the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["meta", "params", "header", "url", "set", "tool", "agent", "rest", "library"]

MAX_QUERY_CHARS = 8_000
MAX_TEXTS = 16
MAX_TOP_K = 200
REST_QUERY_CHARS = 500
"""Longest query over REST, unless configured otherwise."""
REST_TOP_K = 50


@dataclass(frozen=True, slots=True)
class Query:
    """A retrieval request. Checked where it is read from the wire; plain value here.

    Attributes:
        texts: 1 to 16 intents, 1 to 8,000 characters together.
        threshold: score (or raw score) from which a tool is listed, 0 to 1; None: configured.
        top_k: at most so many tools, 1 to 200; None: configured.
        servers: only tools of these servers; None: all.
        categories: only tools of these categories; None: all.
        ranker: named ranker; None: configured.
        source: where the query travelled.
        hour: the caller's local hour, 0 to 23; None: unknown, and nothing is ranked by it.
        last_tool: exposed name of the tool that the caller called last; None likewise.
        user: whose history ranks; None: nobody's.
    """

    texts: tuple[str, ...]
    threshold: float | None = None
    top_k: int | None = None
    servers: frozenset[str] | None = None
    categories: frozenset[str] | None = None
    ranker: str | None = None
    source: Source = "library"
    hour: int | None = None
    last_tool: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class VisibleSet:
    """The tools that a principal may see at one endpoint, decided by policy before ranking.

    Compared by identity: the policy core caches one object per (snapshot, profile), so that
    retrieval can cache its mask by it.

    Attributes:
        names: exposed names.
        key: stable text that names the profile (for caches outside the process).
    """

    names: frozenset[str]
    key: str = ""

    def __len__(self) -> int:
        return len(self.names)
