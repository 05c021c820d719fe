"""Tools, and a ranker that needs no calibration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from armory.domain.tool import ToolRecord, fingerprint
from armory.retrieval.features import CandidateFeatures
from armory.retrieval.rankers.base import Ranker, RankSettings, Scores


class Plain:
    """Raw score: cosine plus a tenth of BM25; P and score: the same squeezed into [0, 1]."""

    def __init__(self, name: str = "relevance", needs_vectors: bool = True) -> None:
        self.name = name
        self._needs_vectors = needs_vectors

    def works_without_vectors(self, tools: int) -> bool:
        return not self._needs_vectors

    def rank(self, features: CandidateFeatures, settings: RankSettings) -> Scores:
        parts = features.subqueries
        raw = np.max([0.1 * part.bm25 for part in parts], axis=0)
        meanings = [part.cosine for part in parts if part.cosine is not None]
        meanings += [part.used for part in parts if part.used is not None]
        if meanings:
            raw = raw + np.max(meanings, axis=0)
        squeezed = np.clip(raw / 2, 0, 1)
        order = np.argsort(-raw, kind="stable")
        return Scores(order, raw, squeezed, squeezed, signals={"raw": raw})

    def reason(self, features: CandidateFeatures, scores: Scores, position: int) -> str:
        return f"{features.records[position].name}: {scores.raw[position]:.2f}"


@pytest.fixture
def rankers() -> dict[str, Ranker]:
    return {"relevance": Plain(), "lexical": Plain("lexical", needs_vectors=False)}


MakeTool = Callable[..., ToolRecord]


@pytest.fixture
def make_tool() -> MakeTool:
    def make(name: str, description: str = "", server: str = "srv", **more: Any) -> ToolRecord:
        definition = {"name": name, "description": description, "inputSchema": {"type": "object"}}
        return ToolRecord(
            name=f"{server}__{name}",
            server=server,
            original_name=name,
            definition=definition,
            fingerprint=fingerprint(definition),
            description=description,
            **more,
        )

    return make


@pytest.fixture
def tools(make_tool: MakeTool) -> list[ToolRecord]:
    return [
        make_tool("get_time", "Current time in a time zone", "clock"),
        make_tool("convert_time", "Convert a time between zones", "clock"),
        make_tool("send_email", "Send an email message to a person", "mail", category="office"),
        make_tool("read_file", "Read the content of a file on disk", "files"),
        make_tool("write_file", "Write text into a file on disk", "files", category="office"),
    ]
