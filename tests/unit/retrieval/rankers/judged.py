"""A small catalog as rankers are given it: what a query has in common with each tool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from armory.domain.tool import ToolRecord
from armory.retrieval.features import NO_MOMENTS, CandidateFeatures, Moments, Subquery
from armory.retrieval.indexing.document import fields_of
from armory.retrieval.lexical.bm25 import LexicalIndex
from armory.retrieval.ports import FloatArray, IntArray
from armory.retrieval.scoring.ordering import Order
from armory.retrieval.search.scope import subquery_texts


def tools() -> list[ToolRecord]:
    described = {
        "git__commit": "Record changes to the repository",
        "git__log": "Show the commit history",
        "mail__send": "Send an email message to somebody",
        "mail__list": "List emails of the inbox",
        "weather__forecast": "Weather forecast of a city",
        "math__add": "Add two numbers",
    }
    found = [
        ToolRecord(name, name.split("__")[0], name.split("__")[1], {}, "0", description=text)
        for name, text in described.items()
    ]
    filler = [ToolRecord(f"x__t{i}", "x", f"t{i}", {}, "0", f"Filler {i}") for i in range(30)]
    return [*found, *filler]


def moments(values: FloatArray) -> Moments:
    return Moments(float(values.mean()), float(values.std()))


def features(
    texts: Sequence[str], like: dict[str, float] | None, records: list[ToolRecord] | None = None
) -> CandidateFeatures:
    """Every subquery has cosine 0.1 (and a ripple) with all tools but those in `like`."""
    records = records or tools()
    index = LexicalIndex()
    for record in records:
        index.add(record.name, fields_of(record))
    postings = index.freeze()
    ripple = 0.1 + 0.02 * np.sin(np.arange(len(records)))
    cosines: FloatArray | None = None
    if like is not None:
        values = [like.get(r.name, ripple[i]) for i, r in enumerate(records)]
        cosines = np.array(values, np.float32)
    subqueries: list[Subquery] = []
    for part in subquery_texts(texts):
        hits = postings.search(part.text)
        bm25 = hits.bm25()
        subqueries.append(
            Subquery(
                text=part.text,
                parent=part.parent,
                whole=part.whole,
                cosine=cosines,
                cosine_moments=NO_MOMENTS if cosines is None else moments(cosines),
                bm25=bm25,
                bm25_moments=moments(bm25),
                hits=hits,
            )
        )
    rows = np.arange(len(records))
    return CandidateFeatures(subqueries, records, rows, postings, len(records), "e" if like else "")


def names(found: CandidateFeatures, order: IntArray | Order) -> list[str]:
    return [found.records[i].name for i in order.tolist()]
