"""How well a query fits whole servers, and the order of tools by that as well.

Owns: `server_means` and `reordered_by_server`, pure functions. Never imports indexes, embedders or
rankers.

Among many tools some are near a query by chance: by one word, by a turn of phrase. Over all tools
of a server chance cancels out, and what the server is for remains. "Add milk to my to-do list"
shares a word with a few of an issue tracker's two hundred tools, but some meaning with every tool
of a task list.
"""

from __future__ import annotations

import numpy as np

from armory.retrieval.ports import FloatArray, IntArray

#: Cap of a server's mean standard score. Without it the mean of a server with a single tool, over
#: which nothing cancels out, would outweigh all others.
_CAP = 2.5
#: Log-odds for one standard score of the server.
_WEIGHT = 1.25
#: Tools up to which servers do not count, chance mattering little, and from which they do fully.
_FEW, _MANY = 50, 500


def server_means(total: FloatArray, servers: IntArray, of: IntArray) -> FloatArray:
    """The mean standard score of each tool's server, at most 2.5.

    Args:
        total: (c,) standard scores of all visible tools, about 0 on average.
        servers: (c,) a small number >= 0 for the server of each.
        of: (k,) positions of the tools that are asked for.

    Returns:
        (k,) float32.
    """
    means = np.bincount(servers, total) / np.maximum(np.bincount(servers), 1)
    return np.minimum(means, _CAP)[servers[of]].astype(np.float32)


def reordered_by_server(odds: FloatArray, near: FloatArray, tools: int) -> FloatArray:
    """The same log-odds, dealt out anew in the order of tools and servers together.

    Servers decide who comes first, not how likely any tool is wanted: the first place keeps its
    log-odds, and so does every other, so as many tools are listed as before.

    Args:
        odds: (k,) log-odds of the best candidates.
        near: (k,) the means of their servers, see `server_means`.
        tools: how many are searched.

    Returns:
        (k,) float32.
    """
    share = _WEIGHT * min(float(np.log(max(tools, 1) / _FEW) / np.log(_MANY / _FEW)), 1.0)
    if share <= 0:
        return odds
    order = np.argsort(-(odds + np.float32(share) * near), kind="stable")
    found = np.empty_like(odds)
    found[order] = -np.sort(-odds)
    return found
