"""What the tools of a server say together, and what of it each of them gets.

Owns: `together` and `sided`, pure functions. Never imports indexes, embedders or rankers.

Of many tools some are near a query by chance: by a word that they share, by a turn of phrase. What
a server is for shows in all of its tools, over which chance cancels out: "add milk to my to-do
list" has a word in common with a few of an issue tracker's two hundred tools, and a little of its
meaning with all of a task list's.
"""

from __future__ import annotations

import numpy as np

from armory.retrieval.ports import FloatArray, IntArray

#: Standard scores above which no server is nearer than another: the rest is for the tools to say,
#: else a server of one tool, which has nobody to contradict it, would stand above all others.
_ENOUGH = 2.5
#: What a standard score of the server is worth, in log-odds.
_WORTH = 1.25
#: Tools up to which servers do not count, chance being no matter there, and from which wholly.
_FEW, _MANY = 50, 500


def together(total: FloatArray, servers: IntArray, of: IntArray) -> FloatArray:
    """(k,) how near the servers of some tools are: the mean over all tools of each, at most 2.5.

    Args:
        total: (c,) standard scores of all visible tools, about 0 on average.
        servers: (c,) a small number >= 0 for the server of each.
        of: (k,) positions of the tools.
    """
    means = np.bincount(servers, total) / np.maximum(np.bincount(servers), 1)
    return np.minimum(means, _ENOUGH)[servers[of]].astype(np.float32)


def sided(odds: FloatArray, near: FloatArray, tools: int) -> FloatArray:
    """The same log-odds in the order of tools and servers together.

    Servers say who is first, not how likely any tool is wanted: each place keeps what it is worth,
    so that as many tools are listed as before.

    Args:
        odds: (k,) of the best candidates.
        near: (k,) of their servers, see `together`.
        tools: how many are searched.
    """
    share = _WORTH * min(float(np.log(max(tools, 1) / _FEW) / np.log(_MANY / _FEW)), 1.0)
    if share <= 0:
        return odds
    order = np.argsort(-(odds + np.float32(share) * near), kind="stable")
    found = np.empty_like(odds)
    found[order] = -np.sort(-odds)
    return found
