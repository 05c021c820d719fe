"""The models of retrieval over REST.

Owns: names, ranges and descriptions of members. Never imports a handler.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import Field

from armory.web.rest.routes import Answer, Shape, Text

Name = Annotated[Text, Field(min_length=1, max_length=200)]
Hour = Annotated[int, Field(ge=0, le=23)]
Score = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]
TOOLS_AT_ONCE = 1_000


class Listed(Protocol):
    """What a list that comes in parts has."""

    @property
    def id(self) -> str:
        """By which the next part is asked for."""
        ...


L = TypeVar("L", bound=Listed)


class Page(Shape):
    """Which part of a list."""

    after: Annotated[Text, Field(max_length=200)] = Field(
        default="", description="Id to go on after."
    )
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100

    def part(self, found: list[L]) -> tuple[list[L], str | None]:
        """This part of what was found, where one more was looked for, and `Paged.next`."""
        part = found[: self.limit]
        return part, part[-1].id if len(found) > len(part) else None


class LongPage(Page):
    """Which part of a list that is mostly short."""

    limit: Annotated[int, Field(ge=1, le=1_000)] = 1_000


class Paged(Answer):
    """A part of a list."""

    next: str | None = Field(
        default=None, description="What `after` gets what comes next; null: that was all."
    )


AGENT_FIELDS = (
    "answer", "stopped", "error", "iterations", "documents", "chunks", "usage", "trace"
)  # fmt: skip
"""Members of the agent's answer beside `tools`."""
MAX_REJECTED = 1_000
_DIGEST = r"^[0-9a-f]{32}$"
_DIGESTS = r"^([0-9a-f]{32}(,[0-9a-f]{32})*)?$"
_SERVER = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
MOMENT = r"^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?$"
SCOPE = r"^[A-Za-z0-9_.:/*-]{1,64}$"
PACK = r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$"
PATTERNS = {
    _SERVER: "lower-case words joined by hyphens",
    MOMENT: "a date or a time, as 2026-01-31 or 2026-01-31T12:00",
    SCOPE: "1 to 64 letters, digits or _.:/*-",
    PACK: "1 to 64 small letters, digits or hyphens, which neither begin nor end it",
    r"\S": "text that is not blank",
    _DIGEST: "32 hexadecimal digits",
    _DIGESTS: "groups of 32 hexadecimal digits with commas between them",
}
"""What each pattern asks for, in words for error messages."""
Digest = Annotated[str, Field(pattern=_DIGEST)]
Rejected = Annotated[list[Digest], Field(max_length=MAX_REJECTED)]
Digests = Annotated[str, Field(pattern=_DIGESTS, max_length=33_000)]


def digests_of(given: str | list[str]) -> list[str]:
    """The digests in a list, or in a comma-separated URL parameter."""
    return given.split(",") if isinstance(given, str) and given else list(given)


class FoundTool(Answer):
    """One tool that was found."""

    name: str
    server: str
    description: str
    inputSchema: dict[str, Any]
    score: float = Field(description="The ranker's own formula; higher is better.")
    relevance: float = Field(description="Calibrated score in [0, 1], comparable over rankers.")
    reason: str


class Tools(Answer):
    """The answer of V1 and V2."""

    tools: list[FoundTool]
    query_id: str
    took_ms: float
    path: Literal["v1", "v2"]
    degraded: str | None = Field(default=None, description="What was lost, if anything.")


class Debug(Answer):
    """The numbers behind a ranking, parallel to `tools`."""

    query_embedding: list[float]
    embedding_similarity_scores: list[float]
    popularity_scores: list[float]
    user_history_scores: list[float]
    performance_scores: list[float]


class RankedTools(Answer):
    """The answer of `/v1/retrieve_tools`."""

    tools: list[FoundTool]
    query_id: str
    took_ms: float
    path: Literal["v1", "v2"]
    degraded: str | None = None
    debug: Debug | None = None
    answer: str | None = Field(default=None, description="The agent's Final Answer.")
    stopped: str | None = Field(default=None, description="Why the agent ended.")
    error: str | None = Field(default=None, description="What failed, if `stopped` says so.")
    iterations: int | None = Field(default=None, description="Searches that the agent made.")
    documents: list[dict[str, Any]] | None = Field(
        default=None, description="Passages of documents that the agent found, with their text."
    )
    chunks: list[dict[str, Any]] | None = Field(
        default=None, description="All that the agent saw; `digest` is for `rejected`."
    )
    usage: dict[str, int] | None = Field(default=None, description="Tokens that it took.")
    trace: list[dict[str, Any]] | None = Field(default=None, description="The agent's steps.")


class Filter(Shape):
    """What to leave out."""

    server: Name | None = None
    category: Name | None = None
    min_score: Score | None = Field(default=None, description="Compared with `score`.")


class Context(Shape):
    """What the caller is doing."""

    hour: Hour | None = Field(default=None, description="Local hour, 0 to 23.")
    last_tool: Name | None = Field(default=None, description="Exposed name of the last tool.")


class Installed(Shape):
    """What a user has installed; at least one of the three."""

    tool_name: Name | None = Field(default=None, description="Exposed name of one tool.")
    server: Name | None = Field(default=None, description="Key of a server.")
    pack_id: Name | None = None


class InstallationAnswer(Answer):
    """One installation."""

    kind: Literal["pack", "server", "tool"]
    value: str
    is_active: bool
    installed_at_ms: int


class Installations(Answer):
    """Everything that a user has installed."""

    installations: list[InstallationAnswer]


class ToolsToIndex(Shape):
    """Tools for the index that no upstream offers."""

    tools: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=TOOLS_AT_ONCE)] = Field(
        description="MCP tool objects; each needs a `name` and may name its `server`."
    )
    server: Annotated[str, Field(pattern=_SERVER, max_length=64)] = "indexed"
    category: Name | None = None
    tags: Annotated[list[Name], Field(max_length=50)] = Field(default=[])
    skip_existing: bool = False


class GoneTools(Shape):
    """Indexed tools to be taken out: one of the two."""

    name: Name | None = Field(default=None, description="Exposed name of one tool.")
    server: Name | None = Field(default=None, description="Key of a server: all its tools.")


class RemovedTools(Answer):
    """The exposed names of what was taken out."""

    removed: list[str]


class IndexedTools(Answer):
    """What became of them, by exposed name."""

    indexed: list[str]
    skipped: list[str]
