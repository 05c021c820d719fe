"""What the reasons of rankers say: what decided, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from armory.retrieval.ports import UsageArrays
from armory.retrieval.rankers.base import RankSettings
from armory.retrieval.rankers.formulas import (
    LexicalRanker,
    SemanticRanker,
)
from armory.retrieval.rankers.multi_factor import SIGNALS, MultiFactorRanker
from tests.unit.retrieval.rankers.judged import features


@pytest.mark.parametrize(
    ("cosine", "said"),
    [
        (0.6, "Close in meaning (0.60)."),
        (0.3, "Related in meaning (0.30)."),
        (0.2, "Loosely related in meaning (0.20)."),
        (0.004, "Little is known of it."),
        (-0.2, "Little is known of it."),
    ],
)
def test_a_reason_names_similarity_however_low(cosine: float, said: str) -> None:
    found = features(["send an email"], {"mail__send": cosine})
    ranker = MultiFactorRanker()
    scores = ranker.rank(found, RankSettings())
    place = next(i for i, one in enumerate(found.records) if one.name == "mail__send")
    assert ranker.reason(found, scores, place) == said


def test_reasons_name_what_decided() -> None:
    found = features(["send an email"], {"mail__send": 0.7})
    lexical = LexicalRanker()
    scores = lexical.rank(found, RankSettings())
    assert "meaning" not in lexical.reason(found, scores, int(scores.order[0])).lower()
    semantic = SemanticRanker()
    reason = semantic.reason(found, semantic.rank(found, RankSettings()), int(scores.order[0]))
    assert "meaning" in reason.lower()
    assert "words" not in reason

    popular = np.ones(1, np.float32)

    class Popular:
        def statistics(self, user: str | None, names: Sequence[str]) -> UsageArrays:
            return UsageArrays(*(np.repeat(popular, len(names)) for _ in range(3)))

    used = replace(found, usage=Popular())
    ranker = MultiFactorRanker()
    for weights, named in (
        ({}, True),
        ({"similarity": 1.0, **dict.fromkeys(SIGNALS[1:], 0)}, False),
    ):
        scores = ranker.rank(used, RankSettings(weights=weights))
        reason = ranker.reason(used, scores, int(scores.order[0]))
        assert "meaning" in reason
        assert ("popular" in reason, "reliable" in reason) == (named, named)
