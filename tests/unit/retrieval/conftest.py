"""Tools, and a ranker that needs no calibration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from armory.domain.tool import ToolRecord, fingerprint
from armory.retrieval.ports import CandidateFeatures, Ranked, Ranker, RankSettings


class Plain:
    """Raw score: cosine plus a tenth of BM25; P and score: the same squeezed into [0, 1]."""

    def __init__(self, name: str = "relevance", needs_dense: bool = True) -> None:
        self.name = name
        self.needs_dense = needs_dense

    def rank(self, evidence: CandidateFeatures, settings: RankSettings) -> Ranked:
        raw = np.max([0.1 * leg.bm25 for leg in evidence.legs], axis=0)
        meanings = [leg.cosine for leg in evidence.legs if leg.cosine is not None]
        meanings += [leg.used for leg in evidence.legs if leg.used is not None]
        if meanings:
            raw = raw + np.max(meanings, axis=0)
        squeezed = np.clip(raw / 2, 0, 1)
        order = np.argsort(-raw, kind="stable")
        return Ranked(order, raw, squeezed, squeezed, signals={"raw": raw})

    def reason(self, evidence: CandidateFeatures, ranked: Ranked, position: int) -> str:
        return f"{evidence.records[position].name}: {ranked.raw[position]:.2f}"


@pytest.fixture
def rankers() -> dict[str, Ranker]:
    return {"relevance": Plain(), "lexical": Plain("lexical", needs_dense=False)}


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
