"""Validation of the arguments of an agent run, with messages that say what was expected.

Owns: the checks of a run's arguments. Never imports the loop.
"""

from __future__ import annotations

import re
from typing import Any

from armory.domain.query import VisibleSet
from armory.errors import InvalidRequest
from armory.retrieval.library.arguments import listed, tool_count
from armory.retrieval.library.toolbox import shown

_DIGEST = re.compile(r"[0-9a-f]{32}")


def check_run(question: Any, top_k: Any, visible: Any) -> int:
    """Validate the arguments of a run; returns the most tools that it returns.

    Raises:
        InvalidRequest: the question is no text or empty, `top_k` no whole number from 1 on, or
            `visible` no set of tools as retrieval takes it.
    """
    if not isinstance(question, str):
        raise InvalidRequest(
            f"the question is {shown(question)}, expected a text", parameter="query"
        )
    if not question.strip():
        raise InvalidRequest("the question is empty; say what is wanted", parameter="query")
    if visible is not None and not isinstance(visible, VisibleSet):
        raise InvalidRequest(
            f"visible is {shown(visible)}, expected a VisibleSet, or None for every tool",
            parameter="visible",
        )
    return tool_count("top_k", top_k)


def digests_of(rejected: Any) -> frozenset[str]:
    """The digests of chunks to leave out.

    Raises:
        InvalidRequest: a text alone, whose letters would be taken for digests, or no list, or what
            is in it is no digest, as the id of a chunk.
    """
    given = listed("rejected", rejected, "digests")
    for one in given:
        if not isinstance(one, str) or not _DIGEST.fullmatch(one):
            raise InvalidRequest(
                f"rejected holds {shown(one)}, expected the `digest` of a chunk: 32 hexadecimal "
                "digits",
                parameter="rejected",
            )
    return frozenset(given)
