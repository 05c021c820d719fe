"""Builds learning from use (`tool_rag.learn_from_use`), where it is on.

Owns: putting its parts together, and how many uses count.
"""

from __future__ import annotations

from collections.abc import Callable

from armory.accounts.service import Accounts
from armory.config import Loaded
from armory.feedback.learning import Learning
from armory.feedback.store import StoredUses
from armory.feedback.vectors import FeedbackVectors
from armory.retrieval.retriever import Retriever


def learning_of(
    loaded: Loaded, accounts: Accounts | None, retriever: Callable[[], Retriever | None]
) -> Learning | None:
    """What learns from use; None: nothing does.

    Args:
        loaded: the configuration.
        accounts: keep what was learned; None: nothing is kept.
        retriever: gives what embeds the queries, once it is there.
    """
    rag = loaded.config.tool_rag
    if accounts is None or not (rag.enabled and rag.learn_from_use):
        return None
    return Learning(
        FeedbackVectors(),
        retriever,
        StoredUses(accounts.database, accounts.feed),
        accounts.feed,
        accounts.query_log.redacted,
    )
