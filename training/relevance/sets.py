"""Labelled sets as evidence: tools, queries and their legs, embedded once and kept on disk.

Reads the layout of `training/README.md`; uses the package's own documents, words and clauses, so
that what is fitted is what runs.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armory.domain.tool import ToolRecord
from armory.retrieval.embedders.embedded import AROUND, EmbeddedEmbedder
from armory.retrieval.features import CandidateFeatures, Moments, Subquery
from armory.retrieval.indexing.document import document_of
from armory.retrieval.lexical.bm25 import LexicalIndex
from armory.retrieval.lexical.postings import Postings
from armory.retrieval.ports import Passage
from armory.retrieval.search.scope import SubqueryText, subquery_texts
from training.data import FOLDS, LABELLED

Array = NDArray[np.float32]

NO_TOOL = "toole-notool"
SETS = (*LABELLED, NO_TOOL)
FOLD_OF = {name: fold for fold, names in FOLDS.items() for name in names}


def group_of(name: str) -> str:
    """Sets that share their tools are one for judging, at any size (`toole among 500`)."""
    name = name.partition(" among ")[0]
    if name.startswith(("written-", "small-")):  # "small-x-07": a half of the written queries
        return "written-" + name.split("-")[1]
    return "toole" if name in ("toole", "toole-multi", "toole-notool") else name


class CachedModel:
    """An exported model folder whose vectors are kept in one file per model.

    Texts are read as the package reads them, each by itself: int8 activations are scaled over a
    batch, so that vectors of texts that run together are others than those that are served. Clauses
    are read in their query; by themselves, without `in_context`, as with any other embedder.
    """

    def __init__(self, folder: Path, cache: Path, *, in_context: bool = True) -> None:
        self._embedder = EmbeddedEmbedder(folder, threads=2)
        self.identity = self._embedder.identity
        self._in_context = in_context
        digest = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()[:12]
        cache.mkdir(parents=True, exist_ok=True)
        self._path = cache / f"read-{digest}.npz"
        self._known: dict[str, Array] = {}
        if self._path.exists():
            stored = np.load(self._path)
            self._known = dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))
        self._dirty = False

    def __call__(self, texts: Sequence[str]) -> Array:
        """(n, 384) float32 unit rows."""
        keys = [hashlib.md5(t.encode("utf-8", "replace")).hexdigest() for t in texts]
        fresh = {k: t for k, t in zip(keys, texts, strict=True) if k not in self._known}
        if fresh:
            found = asyncio.run(self._embedder.embed_documents(list(fresh.values())))
            self._known.update(zip(fresh, found.astype(np.float16), strict=True))
            self._dirty = True
        if not texts:
            return np.zeros((0, 384), np.float32)
        return np.stack([self._known[k] for k in keys]).astype(np.float32)

    def passages(self, passages: Sequence[Passage]) -> Array:
        """(n, 384) float32 unit rows of queries and their clauses."""
        if not self._in_context:
            return self([passage.words for passage in passages])
        keys = [
            hashlib.md5(f"{AROUND} {p.span}\0{p.text}".encode("utf-8", "replace")).hexdigest()
            for p in passages
        ]
        fresh: dict[str, list[tuple[str, tuple[int, int]]]] = {}
        for key, passage in zip(keys, passages, strict=True):
            if passage.span is not None and key not in self._known:
                fresh.setdefault(passage.text, []).append((key, passage.span))
        if fresh:
            asyncio.run(self._read(fresh))
            self._dirty = True
        whole = iter(self([p.text for p in passages if p.span is None]))
        return np.stack(
            [
                next(whole) if p.span is None else self._known[key].astype(np.float32)
                for key, p in zip(keys, passages, strict=True)
            ]
        )

    async def _read(self, wanted: Mapping[str, Sequence[tuple[str, tuple[int, int]]]]) -> None:
        """Clauses, each query read once for all of its own."""
        for text, parts in wanted.items():
            found = await self._embedder.embed_clauses(text, [span for _, span in parts])
            for (key, _), vector in zip(parts, found[1:], strict=True):
                self._known[key] = vector.astype(np.float16)

    def save(self) -> None:
        """Write what is new."""
        if self._dirty:
            keys = np.array(list(self._known))
            np.savez(self._path, keys=keys, vectors=np.stack(list(self._known.values())))
            self._dirty = False


@dataclass(frozen=True)
class Question:
    """One labelled query; `relevant` are rows of the catalog."""

    id: str
    text: str
    relevant: frozenset[int]


@dataclass
class Catalog:
    """A set's tools, indexed."""

    name: str
    records: tuple[ToolRecord, ...]
    postings: Postings
    vectors: Array
    starts: NDArray[np.int64]

    @cached_property
    def servers(self) -> NDArray[np.int64] | None:
        """(n,) a number for each server, its own for a tool of none; None: all are of none."""
        if not any(record.server for record in self.records):
            return None
        numbers: dict[str, int] = {}
        named = (record.server or f"\0{record.name}" for record in self.records)
        return np.array([numbers.setdefault(name, len(numbers)) for name in named])


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def record_of(row: dict[str, Any]) -> ToolRecord:
    """A tool of a set as the catalog would hold it."""
    return ToolRecord(
        name=row["id"],
        server=str(row.get("server") or ""),
        original_name=row["name"],
        definition=row,
        fingerprint=row["id"],
        description=str(row.get("description") or ""),
        server_title=str(row.get("server_title") or ""),
    )


def is_validation(query_id: str) -> bool:
    """Whether the embedder was not trained on the query: 18 %, by the hash of its id."""
    return int(hashlib.sha256(query_id.encode()).hexdigest()[:8], 16) % 100 < 18


def read_questions(
    root: Path, name: str, place: dict[str, int], cap: int, *, validation: bool = False
) -> list[Question]:
    """At most `cap` queries of a set, evenly taken; only those held out of the training, or all."""
    found = rows_of(root / name / "queries.jsonl")
    if validation and name != NO_TOOL:  # the training saw no query without a tool
        found = [row for row in found if is_validation(row["id"])]
    step = max(1, math.ceil(len(found) / cap))
    return [
        Question(r["id"], r["query"], frozenset(place[t] for t in r["relevant"] if t in place))
        for r in found[::step]
    ]


def index(name: str, records: Sequence[ToolRecord], embed: CachedModel) -> Catalog:
    """Index tools as the package does under `description_params`."""
    documents = [document_of(r) for r in records]
    lexical = LexicalIndex()
    for record, document in zip(records, documents, strict=True):
        lexical.add(record.name, document.fields)
    sizes = [len(d.texts) for d in documents]
    vectors = embed([t for d in documents for t in d.texts])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    return Catalog(name, tuple(records), lexical.freeze(), vectors, starts)


def read_catalog(root: Path, name: str, embed: CachedModel) -> Catalog:
    """A set's tools, indexed."""
    return index(name, [record_of(r) for r in rows_of(root / name / "tools.jsonl")], embed)


def features_of(
    catalog: Catalog, texts: Sequence[str], embed: CachedModel
) -> Iterator[CandidateFeatures]:
    """What rankers see of each text over the whole catalog."""
    parts: list[list[SubqueryText]] = [subquery_texts((text,)) for text in texts]
    vectors = embed.passages([subquery.passage for part in parts for subquery in part])
    rows = np.arange(len(catalog.records))
    at = 0
    for part in parts:
        each = vectors[at : at + len(part)]
        at += len(part)
        cosine = np.maximum.reduceat(each @ catalog.vectors.T, catalog.starts, axis=1)
        yield _features(catalog, rows, part, each, cosine, embed.identity)


def _features(
    catalog: Catalog,
    rows: NDArray[np.int64],
    parts: Sequence[SubqueryText],
    vectors: Array,
    cosine: Array,
    identity: str,
) -> CandidateFeatures:
    joined: list[Subquery] = []
    for subquery, row, vector in zip(parts, cosine, vectors, strict=True):
        hits = catalog.postings.search(subquery.text)
        bm25 = hits.bm25()
        joined.append(
            Subquery(
                text=subquery.text,
                parent=subquery.parent,
                whole=subquery.whole,
                cosine=row,
                cosine_moments=Moments(float(row.mean()), float(row.std())),
                bm25=bm25,
                bm25_moments=Moments(float(bm25.mean()), float(bm25.std())),
                hits=hits,
                vector=vector,
            )
        )
    return CandidateFeatures(
        subqueries=joined,
        records=catalog.records,
        rows=rows,
        postings=catalog.postings,
        visible=len(rows),
        embedder=identity,
        servers=catalog.servers,
    )
