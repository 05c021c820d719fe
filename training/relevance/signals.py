"""Signals of every (query, candidate) of a set as arrays, for fitting and judging.

Beside the labelled queries there are two kinds that need no tool of a catalog: questions written
by hand (`no_tool.txt`), and queries of one set against the small catalog of another. A third kind
(`no_tool_apart.txt`) is for judging only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from armory.retrieval.features import CandidateFeatures
from armory.retrieval.rankers.formulas import HybridRanker, LexicalRanker, SemanticRanker
from armory.retrieval.rankers.fusion import fuse
from armory.retrieval.rankers.signals import candidate_signals, query_signals
from armory.retrieval.scoring.fitting import Observations
from training.relevance.sets import (
    LABELLED,
    SETS,
    CachedModel,
    Catalog,
    Question,
    features_of,
    read_catalog,
    read_questions,
)
from training.relevance.written import (
    HALVES,
    held_queries,
    index_rows,
    large,
    pool_rows,
    questions_of,
    smalls,
)

Array = NDArray[np.float32]
Tables = dict[str, dict[str, Observations]]
FORMULAS = (SemanticRanker(), HybridRanker(), LexicalRanker())
NO_TOOL_TEXTS = Path(__file__).with_name("no_tool.txt")
#: Requests that need no tool and that nothing is fitted on: kind `apart`.
APART_TEXTS = Path(__file__).with_name("no_tool_apart.txt")
APART = "apart"
#: What each half of the written queries weighs, where a labelled set weighs 1: over the large
#: catalog, and over all its small ones together.
WRITTEN_WEIGHT, SMALL_WEIGHT = 0.7, 1.0
#: No-tool requests that are put to a small catalog.
_HAND_SMALL = 30
#: Catalogs small enough that a stranger's query has no tool in them.
SMALL = ("toole", "livemcpbench", "mcpproxy-golden", "docker-pool")
_STRANGERS = 100
#: The z-scored fusion of whole queries, without clauses or constants: what everything is held to.
PLAIN = "plain"


class Collector:
    """Gathers one ranker's rows over one set."""

    def __init__(self) -> None:
        self._signals: list[dict[str, Array]] = []
        self._query: list[dict[str, float]] = []
        self._wanted: list[NDArray[np.bool_]] = []
        self._relevant: list[int] = []

    def add(
        self,
        signals: dict[str, Array],
        query: dict[str, float],
        best: NDArray[np.int64],
        relevant: frozenset[int],
    ) -> None:
        """One query."""
        self._signals.append(signals)
        self._query.append(query)
        self._wanted.append(np.isin(best, list(relevant)))
        self._relevant.append(len(relevant))

    def observations(self) -> Observations:
        """All of them; small sets weigh a little less."""
        first, query = self._signals[0], self._query[0]
        return Observations(
            signals={n: np.stack([s[n] for s in self._signals]) for n in first},
            query={n: np.array([q[n] for q in self._query], np.float32) for n in query},
            wanted=np.stack(self._wanted),
            relevant=np.array(self._relevant),
            weight=min(1.0, len(self._query) / 100) ** 0.5,
        )


def read_all(
    root: Path,
    embed: CachedModel,
    *,
    cap: int,
    sets: Sequence[str] = SETS,
    validation: bool = False,
) -> tuple[Tables, dict[str, Observations]]:
    """Tables by ranker and set; queries without a tool by `kind:catalog:set`."""
    catalogs = {s: read_catalog(root, s, embed) for s in {*sets, *SMALL}}
    questions = {
        s: read_questions(
            root,
            s,
            {r.name: i for i, r in enumerate(catalogs[s].records)},
            cap,
            validation=validation,
        )
        for s in sets
    }
    tables: Tables = {}
    for name in sets:
        for ranker, found in _labelled(catalogs[name], questions[name], embed).items():
            tables.setdefault(ranker, {})[name] = found
        embed.save()
    needless = {
        f"{kind}:{name}:": _queries(catalogs[name], texts, embed)
        for kind, texts in (("hand", _lines(NO_TOOL_TEXTS)), (APART, _lines(APART_TEXTS)))
        for name in (*LABELLED, *SMALL)
        if name in catalogs and name != "toole-multi"
    }
    chance = np.random.default_rng(0)
    for home in SMALL:
        for name in (s for s in LABELLED if s in sets):
            if name == home or {home, name} <= {"toole", "toole-multi"}:
                continue
            chosen = chance.permutation(len(questions[name]))[:_STRANGERS]
            texts = [questions[name][i].text for i in chosen]
            needless[f"cross:{home}:{name}"] = _queries(catalogs[home], texts, embed)
    embed.save()
    return tables, needless


def read_written(root: Path, embed: CachedModel) -> tuple[Tables, dict[str, Observations]]:
    """The same of the written queries: a large catalog and many small ones for each half."""
    rows = pool_rows(root)
    tables: Tables = {}
    needless: dict[str, Observations] = {}
    whole = index_rows("written", large(rows), embed)
    chance = np.random.default_rng(1)
    kinds = (("hand", _lines(NO_TOOL_TEXTS)), (APART, _lines(APART_TEXTS)))
    for half in HALVES:
        asked = [(q, ids) for q, ids, _ in held_queries(rows)[half]]
        parts = {f"written-{half}": (whole, questions_of(whole, asked), WRITTEN_WEIGHT)}
        catalogs = list(smalls(rows, half))
        for small in catalogs:
            indexed = index_rows(small.name, small.tools, embed)
            share = SMALL_WEIGHT / len(catalogs)
            parts[small.name] = (indexed, questions_of(indexed, small.asked), share)
            needless[f"vain:{small.name}:{small.name}"] = _queries(
                indexed, small.absent, embed, share
            )
            for kind, texts in kinds:
                chosen = chance.permutation(len(texts))[:_HAND_SMALL]
                needless[f"{kind}:{small.name}:"] = _queries(
                    indexed, [texts[i] for i in chosen], embed, share
                )
        for name, (catalog, questions, weight) in parts.items():
            for ranker, found in _labelled(catalog, questions, embed).items():
                tables.setdefault(ranker, {})[name] = replace(found, weight=weight)
    embed.save()
    return tables, needless


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _query_of(features: CandidateFeatures) -> dict[str, float]:
    return query_signals(features, candidate_signals(features, fuse(features)))


def _labelled(
    catalog: Catalog, questions: Sequence[Question], embed: CachedModel
) -> dict[str, Observations]:
    names = ("relevance", PLAIN, *(r.name for r in FORMULAS))
    collectors = {name: Collector() for name in names}
    texts = [q.text for q in questions]
    for features, question in zip(features_of(catalog, texts, embed), questions, strict=True):
        fusion = fuse(features)
        signals = candidate_signals(features, fusion)
        query = query_signals(features, signals)
        collectors["relevance"].add(signals, query, fusion.best, question.relevant)
        bare = fuse(replace(features, subqueries=features.subqueries[:1]))
        only = {"fusion": bare.total[bare.best]}
        collectors[PLAIN].add(only, {}, bare.best, question.relevant)
        for ranker in FORMULAS:
            own, best = ranker.signals(features, ranker.formula(features))
            collectors[ranker.name].add(own, query, best, question.relevant)
    return {
        name: replace(collector.observations(), texts=texts)
        for name, collector in collectors.items()
    }


def _queries(
    catalog: Catalog, texts: Sequence[str], embed: CachedModel, weight: float = 1.0
) -> Observations:
    rows = [_query_of(features) for features in features_of(catalog, texts, embed)]
    return Observations(
        signals={},
        query={n: np.array([q[n] for q in rows], np.float32) for n in rows[0]},
        wanted=np.zeros((len(rows), 1), np.bool_),
        relevant=np.zeros(len(rows), np.int64),
        texts=list(texts),
        weight=weight * min(1.0, len(rows) / 100) ** 0.5,
    )
