"""Memory of use within the dense side: past queries become part of a tool's cosine.

Owns: how much the queries that led to a tool count. Pure NumPy; never imports indexes, embedders or
the retriever.

A text that is more like the queries that led to a tool than like its description moves that tool's
cosine towards them, the further the more of them there are; a text that is less like them leaves it
alone. Towards, not on top: what is remembered may not push down what is not. A text that falls into
clauses is left as it is and its clauses are judged instead, since past queries asked for one thing,
and half a match would hide the other half.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from armory.retrieval.features import CandidateFeatures, Subquery
from armory.retrieval.ports import FloatArray
from armory.retrieval.rankers.fusion import cosine_scale

#: Weight of past queries against the description's one, and after how many uses it is half of that.
USE_SHARE = 2.0
USE_HALF = 3.0
#: From this cosine with a past query on fewer uses suffice: the same question says more.
_ALIKE = 0.7
#: The right tool's own queries stand out more than its description does.
_PAST_SCALE = 1.25


def with_uses(features: CandidateFeatures) -> CandidateFeatures:
    """The same features, with cosines as if the past queries were part of the descriptions."""
    uses = features.uses
    if uses is None or not uses.any():
        return features
    split = {subquery.parent for subquery in features.subqueries if not subquery.whole}
    subqueries = [
        s if s.whole and s.parent in split else _mixed(s, uses, features.visible)
        for s in features.subqueries
    ]
    return replace(features, subqueries=subqueries)


def _mixed(subquery: Subquery, uses: FloatArray, visible: int) -> Subquery:
    if subquery.cosine is None or subquery.past is None or subquery.used is None:
        return subquery
    half = USE_HALF * np.minimum((1 - subquery.used) / (1 - _ALIKE), 1)
    share = USE_SHARE / (1 + USE_SHARE) * uses / np.maximum(uses + half, 1e-6)
    mean, std = cosine_scale(subquery, visible)
    past = mean + std * _PAST_SCALE * subquery.past
    gain = share * np.maximum(past - subquery.cosine, 0)
    return replace(subquery, cosine=(subquery.cosine + gain).astype(np.float32))
