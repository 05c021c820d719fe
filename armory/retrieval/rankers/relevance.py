"""The default ranker: all signals of retrieval, with learned weights.

Owns: the `relevance` ranker. Never imports indexes, embedders or the retriever.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from armory.retrieval.features import CandidateFeatures, greatest
from armory.retrieval.lexical.text import every_word
from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.base import RankSettings, Scores
from armory.retrieval.rankers.calibrated import FormulaResult, calibrated, explain
from armory.retrieval.rankers.evidence import Evidence
from armory.retrieval.rankers.formulas import cosine, hybrid
from armory.retrieval.rankers.fusion import Fusion, fuse
from armory.retrieval.rankers.remembered import with_uses
from armory.retrieval.rankers.servers import server_means
from armory.retrieval.rankers.signals import candidate_signals, query_signals

#: Tools up to which it judges by words alone. Among more its probabilities, learned with vectors,
#: come out too small, and `lexical` finds more at the same threshold.
_WORDS_UP_TO = 5_000
#: Longest text that may be a tool's name, and the share of the name that it says then.
_NAME_CHARS, _ALL = 100, 0.999


def evidence_of(
    features: CandidateFeatures, fusion: Fusion, signals: Mapping[str, FloatArray]
) -> Evidence:
    """The evidence about the best candidates of the fusion; `signals` are theirs."""
    best, called = fusion.best, _called(features, fusion, signals["name_said"])
    if not features.dense:
        return Evidence({}, None, fusion.implied, called, fusion.instead)
    near = None
    if features.servers is not None:
        near = server_means(fusion.total, features.servers, best)
    plain = {"hybrid": hybrid(features, best), "semantic": cosine(features, best)}
    return Evidence(plain, near, fusion.implied, called, fusion.instead)


def _called(features: CandidateFeatures, fusion: Fusion, said: FloatArray) -> list[int]:
    """Places among the best of the tools whose name a text is, its server's beside it or not."""
    texts = [every_word(s.text) for s in features.whole if len(s.text) <= _NAME_CHARS]
    found: list[int] = []
    for place in np.flatnonzero(said >= _ALL).tolist() if texts else ():
        record = features.records[int(fusion.best[place])]
        name = every_word(record.original_name)
        most = name | every_word(f"{record.server} {record.server_title}")
        if any(name <= text <= most for text in texts):
            found.append(place)
    return found


def _implied(fusion: Fusion) -> dict[str, FloatArray]:
    """For explanations: (c,) 1 for the tools that do what the query implies."""
    places = [*fusion.implied, *fusion.instead]
    if not places:
        return {}
    flags = np.zeros_like(fusion.total)
    flags[fusion.best[places]] = 1.0
    return {"implied": flags}


class RelevanceRanker:
    """Raw score: log-odds of being wanted."""

    name = "relevance"

    def works_without_vectors(self, tools: int) -> bool:
        """As `Ranker.works_without_vectors`: in small and middling catalogs."""
        return tools <= _WORDS_UP_TO

    def rank(self, features: CandidateFeatures, settings: RankSettings) -> Scores:
        """Fuse meaning and words, weigh the signals of the best hundred, calibrate; beyond a few
        dozen tools lean on plain formulas as far as the query says, and on what the tools of each
        server say together.

        Memory of use says which tool; whether any is needed is judged by the descriptions.
        """
        learnt = with_uses(features)
        fusion = fuse(learnt)
        signals = candidate_signals(learnt, fusion)
        described = None
        if learnt is not features:
            cosines = [s.cosine[fusion.best] for s in features.subqueries if s.cosine is not None]
            described = greatest(cosines) if cosines else None
        query = query_signals(learnt, signals, described)
        evidence = evidence_of(learnt, fusion, signals)
        shown = _implied(fusion)
        result = FormulaResult(
            self.name, fusion.total, None, fusion.best, signals, query, evidence, shown
        )
        return calibrated(result, features, settings)

    def reason(self, features: CandidateFeatures, scores: Scores, position: int) -> str:
        """See `Ranker.reason`."""
        return explain(features, scores, position)
