"""The labelled sets and unlabelled pools: reading, text views of a tool, training pairs.

A set is a folder with `tools.jsonl` and (labelled) `queries.jsonl`; see `training/README.md`.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LABELLED = (
    "toole",
    "toole-multi",
    "livemcpbench",
    "mcpproxy-golden",
    "toolbench-stable",
    "sealtools",
    "bfcl",
    "acebench-en",
)
POOLS = ("toucan-pool", "docker-pool")
#: Our own queries (`written.jsonl`) for tools of the first pool, which are their catalog.
WRITTEN = "written"
WRITTEN_QUERIES = Path(__file__).with_name("written.jsonl")
#: Folds of the leave-sets-out judgement: no fold model has seen any set of its own group.
FOLDS: dict[str, tuple[str, ...]] = {
    "a": ("toole", "toole-multi", "toole-notool"),
    "b": ("livemcpbench", "mcpproxy-golden", "bfcl"),
    "c": ("toolbench-stable", "acebench-en", "sealtools"),
}
VIEWS = ("server", "params", "plain", "names", "description")


@dataclass(frozen=True)
class Tool:
    """One tool of a catalog, reduced to what its text is made of."""

    id: str
    name: str
    description: str
    server: str = ""
    params: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Query:
    """One labelled query; `steps` are the sub-tasks where the set gives them."""

    id: str
    text: str
    relevant: tuple[str, ...]
    steps: tuple[str, ...] = ()


@dataclass
class Catalog:
    """A set: its tools and, where labelled, its queries."""

    name: str
    tools: list[Tool]
    queries: list[Query] = field(default_factory=list)


def split_name(name: str) -> str:
    """`getHTTPStatus_v2` → `get http status v2`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return " ".join(re.split(r"[\s_\-./:#|]+", name)).strip().lower()


def _params(schema: Any) -> tuple[tuple[str, str], ...]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ()
    found = []
    for name, spec in properties.items():
        text = spec.get("description") if isinstance(spec, dict) else ""
        found.append((str(name), " ".join(text.split()) if isinstance(text, str) else ""))
    return tuple(found)


def _tool(row: dict[str, Any]) -> Tool:
    server = str(row.get("server_title") or row.get("server") or "")
    return Tool(
        id=row["id"],
        name=row["name"],
        description=" ".join(str(row.get("description") or "").split()),
        server=split_name(server),
        params=_params(row.get("inputSchema")),
    )


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def load(root: Path, name: str) -> Catalog:
    """Read one set, or the first pool with the queries that were written for it."""
    if name == WRITTEN:
        return Catalog(name, load(root, POOLS[0]).tools, written_queries())
    tools = [_tool(row) for row in _rows(root / name / "tools.jsonl")]
    path = root / name / "queries.jsonl"
    queries = []
    for row in _rows(path) if path.exists() else ():
        steps = [re.sub(r"^\d+[.)]\s*", "", s).strip() for s in row.get("steps", "").splitlines()]
        queries.append(
            Query(row["id"], row["query"], tuple(row["relevant"]), tuple(s for s in steps if s))
        )
    return Catalog(name, tools, queries)


def written_queries() -> list[Query]:
    """The hand-written queries; `relevant` are ids of the first pool."""
    rows = _rows(WRITTEN_QUERIES)
    return [Query(f"w{i}", r["query"], tuple(r["relevant"])) for i, r in enumerate(rows)]


def is_validation(query_id: str) -> bool:
    """Whether the query belongs to the validation part (18 %), by the hash of its id."""
    return int(hashlib.sha256(query_id.encode()).hexdigest()[:8], 16) % 100 < 18


def is_held_server(server: str) -> bool:
    """Whether written queries for this server's tools are never trained on (a fifth)."""
    return int(hashlib.sha256(server.lower().encode()).hexdigest()[:8], 16) % 100 < 20


def held_out(catalog: Catalog) -> list[bool]:
    """Which queries a run does not train on: by the query, of the written ones by the server."""
    if catalog.name != WRITTEN:
        return [is_validation(q.id) for q in catalog.queries]
    held = {t.id for t in catalog.tools if is_held_server(t.server)}
    return [any(r in held for r in q.relevant) for q in catalog.queries]


def view(tool: Tool, kind: str) -> str:
    """The text of a tool under one view."""
    name = split_name(tool.name)
    owned = f"{tool.server} {name}" if tool.server and not name.startswith(tool.server) else name
    if kind == "plain":
        return f"{name}: {tool.description}"
    if kind == "description":
        return tool.description or name
    if kind == "server":
        return f"{owned}: {tool.description}"
    if kind == "names":
        listed = ", ".join(split_name(p) for p, _ in tool.params[:12])
        return f"{name}: {tool.description}" + (f" ({listed})" if listed else "")
    if kind == "params":
        short = " ".join(tool.description.split()[:60])
        listed = "; ".join(
            split_name(p) + (f" ({' '.join(d.split()[:14])})" if d else "")
            for p, d in tool.params[:10]
        )
        return f"{owned}: {short}" + (f" Parameters: {listed}" if listed else "")
    raise ValueError(kind)


def clauses(text: str) -> list[str]:
    """Sentences and coordinated clauses of a query that can stand alone."""
    parts = re.split(
        r"(?<=[.?!;])\s+|,?\s+(?:and then|then|and also|also|additionally|as well as)\s+"
        r"|,\s+and\s+|\s+and\s+(?=(?:find|get|tell|show|provide|give|check|create|send|calculate"
        r"|retrieve|list|search|book|convert|generate|suggest|recommend|help)\b)",
        text,
        flags=re.IGNORECASE,
    )
    return [p.strip(" ,.") for p in parts if len(p.split()) >= 4]


def join(
    first: str, second: str, rng: random.Random
) -> tuple[str, tuple[tuple[int, int], tuple[int, int]]]:
    """Two requests as one query, and which of its characters are either."""
    first = first.rstrip(" .!?")
    joiner = rng.choice((". ", ". Also, ", " and ", ", and then ", "? ", ". Then "))
    if joiner[0] not in ".?" and second[:2] != "I ":
        second = second[:1].lower() + second[1:]
    text = first + joiner + second
    return text, ((0, len(first)), (len(first) + len(joiner), len(text)))


_OPENERS = (
    "",
    "",
    "",
    "please ",
    "can you ",
    "could you ",
    "I need to ",
    "I want to ",
    "help me ",
    "how can I ",
    "I'd like to ",
)
_LEADS = re.compile(
    r"^(?:this|the)?\s*(?:tool|api|endpoint|function|method)?\s*"
    r"(?:can be used to|is used to|used to|allows? (?:you|users?) to|lets you|will|to)\s+",
    re.IGNORECASE,
)
_SKIP_S = {"access", "process", "address", "focus", "discuss", "express", "pass", "compress"}


def imperative(sentence: str) -> str:
    """`Retrieves a list of news.` → `retrieve a list of news`."""
    text = _LEADS.sub("", sentence.strip().rstrip(".!"))
    head, _, tail = text.partition(" ")
    verb = head.lower()
    if verb.endswith("ies") and len(verb) > 4:
        verb = verb[:-3] + "y"
    elif verb.endswith(("ches", "shes", "sses", "xes")):
        verb = verb[:-2]
    elif verb.endswith("s") and not verb.endswith("ss") and verb not in _SKIP_S:
        verb = verb[:-1]
    return f"{verb} {tail}".strip()


def synthetic(tool: Tool, rng: random.Random) -> tuple[str, str] | None:
    """A template query of an unlabelled tool and the document that must answer it.

    The query is the description's first sentence as a request, or the tool's name with its
    parameters; what the query was made of is partly taken out of the document, so that words
    alone do not solve it.
    """
    sentences = re.split(r"(?<=[.!?])\s+|\n", tool.description)
    first = sentences[0] if sentences else ""
    words = first.split()
    if not 4 <= len(words) <= 40:
        return None
    rest = " ".join(sentences[1:])
    name = split_name(tool.name)
    listed = ", ".join(split_name(p) for p, _ in tool.params[:8])
    kind = rng.random()
    if kind < 0.65:
        kept = [w for w in imperative(first).split() if rng.random() > 0.12]
        query = rng.choice(_OPENERS) + " ".join(kept)
        if tool.server and rng.random() < 0.25:
            query += f" {rng.choice(('with', 'in', 'on', 'from', 'using'))} {tool.server}"
        tail = rest if len(rest.split()) >= 4 else ""
        if not tail and rng.random() < 0.5:  # short descriptions stay whole half of the time
            tail = first
        document = f"{tool.server} {name}: {tail}"
        if listed and rng.random() < 0.6:
            document += f" Parameters: {listed}"
        return query, document.strip()
    if kind < 0.85:
        verb = rng.choice(_OPENERS) + name
        if listed and rng.random() < 0.6:
            verb += " given " + " and ".join(listed.split(", ")[:2])
        return verb, f"{tool.server}: {tool.description}".strip(": ")
    return rng.choice(_OPENERS) + imperative(first), view(tool, rng.choice(VIEWS[:4]))


def pool_without(pool: Catalog, sets: Iterable[Catalog]) -> Catalog:
    """The pool less the tools whose description also stands in one of the sets."""
    seen = {t.description.lower() for c in sets for t in c.tools if t.description}
    return Catalog(pool.name, [t for t in pool.tools if t.description.lower() not in seen])
