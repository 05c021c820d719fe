"""Fit and judge what it counts for in refusal that a query is a wish of a few words.

    python training/relevance/terse.py DATA --model FOLDER [--alone] [--entries NAME,NAME] \
        [--json FILE] [--write CALIBRATION]

"Play some jazz" shares hardly a word with a description, and its cosine with the right tool is no
higher than that of "tell me a joke" with any. So one weight is chosen, that of the signal
`form_terse`, and all others stay: the greatest with which the mean share of no-tool requests that
are refused falls by at most `COST` points. Everything of eight words or more is judged as before.
Comes after `fit.py`, whose constants it adds to.

`wishes.jsonl` has wishes by what serves them: servers of the pool, and an expression that the names
of the wanted tools match. They stand in catalogs of four such servers and others drawn from the
pool. Nothing is fitted on them, nor on the no-tool requests that are kept apart.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from armory.retrieval.rankers.fusion import fuse
from armory.retrieval.rankers.signals import candidate_signals, query_signals
from armory.retrieval.scoring.calibration import (
    GENERIC,
    VERSION,
    Calibration,
    calibration_for,
    read_calibrations,
    sigmoid,
)
from training.relevance.sets import CachedModel, features_of
from training.relevance.signals import APART_TEXTS, NO_TOOL_TEXTS
from training.relevance.written import index_rows, pool_rows

Doubles = NDArray[np.float64]
Refused = dict[str, dict[str, float]]
SIGNAL = "form_terse"
WISHES = Path(__file__).with_name("wishes.jsonl")
SIZES = (40, 200, 500, 2000)
#: Percentage points.
COST = 2.5
#: Groups of wishes in a catalog (one in the smallest), tools of a server, no-tool requests put to
#: it, candidates among which a wanted tool counts as found.
_TOGETHER, _OF_SERVER, _NEEDLESS, _FOUND = 4, 40, 60, 10


@dataclass(frozen=True)
class Group:
    """Wishes for what the same servers do."""

    servers: list[str]
    tools: re.Pattern[str]
    wishes: list[str]

    def serves(self, row: Mapping[str, Any]) -> bool:
        """Whether a tool of the pool is one of those."""
        return _title(row) in self.servers and self.tools.search(row["name"]) is not None


@dataclass(frozen=True)
class Asked:
    """A text put to a catalog, and whether a tool for it is there and found."""

    kind: str
    tools: int
    text: str
    signals: Mapping[str, float]
    found: bool


def groups() -> list[Group]:
    """Those of `wishes.jsonl`."""
    rows = [json.loads(line) for line in WISHES.read_text(encoding="utf-8").splitlines()]
    return [
        Group(row["servers"], re.compile(row["tools"], re.IGNORECASE), row["wishes"])
        for row in rows
    ]


def _title(row: Mapping[str, Any]) -> str:
    return str(row.get("server_title") or row.get("server"))


def _drawn(
    some: Sequence[Group],
    rows: Mapping[str, Sequence[dict[str, Any]]],
    size: int,
    by: random.Random,
) -> list[dict[str, Any]]:
    """Tools of one server of each group, and of other servers up to the size."""
    chosen = dict.fromkeys(by.choice(group.servers) for group in some)
    tools = [row for server in chosen for row in rows[server][:_OF_SERVER]]
    others = sorted(set(rows) - {server for group in some for server in group.servers})
    by.shuffle(others)
    for server in others:
        if len(tools) >= size:
            break
        tools += rows[server][:_OF_SERVER]
    return tools


def read_asked(root: Path, embed: CachedModel) -> list[Asked]:
    """All wishes, and no-tool requests, over catalogs of every size."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in pool_rows(root):
        rows[_title(row)].append(row)
    needless = {
        kind: path.read_text(encoding="utf-8").splitlines()
        for kind, path in (("needless", NO_TOOL_TEXTS), ("apart", APART_TEXTS))
    }
    asked: list[Asked] = []
    for size in SIZES:
        by = random.Random(size)
        order = groups()
        by.shuffle(order)
        together = _TOGETHER if size > SIZES[0] else 1
        for start in range(0, len(order), together):
            some = order[start : start + together]
            tools = _drawn(some, rows, size, by)
            catalog = index_rows(f"terse-{size}-{start}", tools, embed)
            texts: list[tuple[str, str, Group | None]] = [
                ("wish", wish, group) for group in some for wish in group.wishes
            ]
            for kind, requests in needless.items():
                texts += [(kind, text, None) for text in by.sample(requests, _NEEDLESS)]
            found = features_of(catalog, [text for _, text, _ in texts], embed)
            for features, (kind, text, group) in zip(found, texts, strict=True):
                fusion = fuse(features)
                signals = query_signals(features, candidate_signals(features, fusion))
                best = [tools[i] for i in fusion.best[:_FOUND].tolist()]
                served = group is not None and any(group.serves(row) for row in best)
                asked.append(Asked(kind, size, text, signals, served))
        embed.save()
        print(f"{size} tools", flush=True)
    return asked


def with_weight(calibration: Calibration, weight: float) -> Calibration:
    """The same with this weight of the signal."""
    need = calibration.need
    return replace(calibration, need=replace(need, weights={**need.weights, SIGNAL: weight}))


def _odds(asked: Sequence[Asked], calibration: Calibration, embed: CachedModel) -> Doubles:
    vectors = embed([one.text for one in asked])
    return np.array(
        [
            calibration.need.of({**one.signals, **calibration.acts_signal([vector])})
            for one, vector in zip(asked, vectors, strict=True)
        ]
    )


def refused(asked: Sequence[Asked], calibration: Calibration, embed: CachedModel) -> Refused:
    """Percent refused by kind and number of tools: of wishes that have a tool among the first ten,
    of those that have none there, of the no-tool requests and of those kept apart.
    """
    need = sigmoid(_odds(asked, calibration, embed).astype(np.float32))
    by: dict[str, dict[int, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for one, p in zip(asked, need.tolist(), strict=True):
        kind = "wish, not found" if one.kind == "wish" and not one.found else one.kind
        by[kind][one.tools].append(calibration.refuses(p, one.tools))
    return {
        kind: {str(size): round(100 * float(np.mean(by[kind][size])), 1) for size in SIZES}
        for kind in ("wish", "wish, not found", "needless", "apart")
    }


def weight_for(asked: Sequence[Asked], calibration: Calibration, embed: CachedModel) -> float:
    """The greatest weight, in tenths up to 20, that costs at most `COST` points."""
    needless = [one for one in asked if one.kind == "needless"]

    def share(weight: float) -> float:
        need = sigmoid(_odds(needless, with_weight(calibration, weight), embed).astype(np.float32))
        asked_of = zip(needless, need.tolist(), strict=True)
        return 100 * float(np.mean([calibration.refuses(p, one.tools) for one, p in asked_of]))

    least, low, high = share(0.0) - COST, 0, 200
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if share(middle / 10) >= least else (low, middle)
    return low / 10


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Fit what a wish of a few words counts for.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="exported embedder")
    parser.add_argument("--alone", action="store_true", help="clauses read by themselves")
    parser.add_argument("--entries", help="of the calibration file; default: the model's identity")
    parser.add_argument("--cache", type=Path, default=Path(".cache/relevance"))
    parser.add_argument("--json", type=Path, help="write what is refused before and after")
    parser.add_argument("--write", type=Path, help="calibration file to put the weight into")
    args = parser.parse_args()
    embed = CachedModel(args.model, args.cache, in_context=not args.alone)
    asked = read_asked(args.data, embed)
    figures: dict[str, Any] = {}
    weights: dict[str, float] = {}
    for entry in (args.entries or embed.identity).split(","):
        calibration = calibration_for("lexical" if entry == GENERIC else "relevance", entry)
        weights[entry] = weight_for(asked, calibration, embed)
        figures[entry] = {
            "weight": weights[entry],
            "before": refused(asked, with_weight(calibration, 0.0), embed),
            "after": refused(asked, with_weight(calibration, weights[entry]), embed),
        }
    print(json.dumps(figures, indent=1))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if args.write:
        rankers = read_calibrations(args.write.read_text(encoding="utf-8"))
        for entries in rankers.values():
            for name in weights.keys() & entries.keys():
                entries[name]["need"]["weights"][SIGNAL] = weights[name]
        text = json.dumps({"version": VERSION, "rankers": rankers}, indent=1)
        args.write.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
