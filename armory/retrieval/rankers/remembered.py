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

from armory.retrieval.ports import CandidateFeatures, FloatArray, Subquery
from armory.retrieval.rankers.signals import cosine_spread

#: Weight of past queries against the description's one, and after how many uses it is half of that.
USE_SHARE = 2.0
USE_HALF = 3.0
#: From this cosine with a past query on fewer uses suffice: the same question says more.
_ALIKE = 0.7
#: The right tool's own queries stand out more than its description does.
_PAST_SCALE = 1.25


def with_uses(evidence: CandidateFeatures) -> CandidateFeatures:
    """The same evidence, cosines as if the past queries were part of the descriptions."""
    uses = evidence.uses
    if uses is None or not uses.any():
        return evidence
    split = {leg.parent for leg in evidence.legs if not leg.whole}
    legs = [
        leg if leg.whole and leg.parent in split else _mixed(leg, uses) for leg in evidence.legs
    ]
    return replace(evidence, legs=legs)


def _mixed(leg: Subquery, uses: FloatArray) -> Subquery:
    if leg.cosine is None or leg.past is None or leg.used is None:
        return leg
    half = USE_HALF * np.minimum((1 - leg.used) / (1 - _ALIKE), 1)
    share = USE_SHARE / (1 + USE_SHARE) * uses / np.maximum(uses + half, 1e-6)
    mean, std = cosine_spread(leg)
    past = mean + std * _PAST_SCALE * leg.past
    gain = share * np.maximum(past - leg.cosine, 0)
    return replace(leg, cosine=(leg.cosine + gain).astype(np.float32))
