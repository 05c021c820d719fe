"""Checks of the configured stores: database, Redis, vector index.

Owns: the checks of the addresses of Qdrant, the database and Redis. Never imports a room.
"""

from __future__ import annotations

import re

from armory.config.model import Config
from armory.config.problems import Findings

_SQLITE_FILE = re.compile(r"sqlite(\+\w+)?:///(?!:memory:(\?|$))[^?](?!.*[?&]mode=memory\b)")
_END_OF_AUTHORITY = re.compile(r"[/?#]")
_COLLECTION = re.compile(r'[^<>:"/\\|?*\x00-\x1f]{1,150}')
_TORN = (
    "the password seems to hold '@', '/', '?' or '#', which end it there; write %40, %2F, %3F or "
    "%23, or give the password alone as a variable, which is encoded where it has to be: "
    "scheme://user:${PASSWORD}@host/..."
)


def qdrant(config: Config) -> Findings:
    """Whether it says where Qdrant is, and by a name that Qdrant takes."""
    rag = config.tool_rag
    if rag.index == "qdrant" and (rag.qdrant.url is None) == (rag.qdrant.path is None):
        yield ("tool_rag", "qdrant"), "`index: qdrant` needs exactly one of 'url' and 'path'"
    name = rag.qdrant.collection
    if not _COLLECTION.fullmatch(name):
        yield (
            ("tool_rag", "qdrant", "collection"),
            f"{name!r} cannot begin the name of a Qdrant collection; expected 1 to 150 characters, "
            'none of < > : " / \\ | ? * and no control characters',
        )


def database(config: Config) -> Findings:
    """Whether the database is of a kind that is known, and lasts."""
    scheme = config.storage.url.partition(":")[0].partition("+")[0]
    if scheme not in ("sqlite", "postgresql", "postgres"):
        yield (
            ("storage", "url"),
            f"a database of kind {scheme!r} is not known; use sqlite:///FILE or postgresql://...",
        )
    elif scheme == "sqlite" and not _SQLITE_FILE.match(config.storage.url):
        yield (
            ("storage", "url"),
            f"{config.storage.url!r} names no file, and what is kept must survive a restart; write "
            "sqlite:///FILE, with four slashes where FILE begins at the root",
        )
    elif scheme != "sqlite" and _torn(config.storage.url):
        yield ("storage", "url"), _TORN


def redis(config: Config) -> Findings:
    """Whether it is a URL of Redis."""
    url = config.storage.redis
    if url is not None and url.partition(":")[0] not in ("redis", "rediss", "unix"):
        yield ("storage", "redis"), "a redis://, rediss:// or unix:// URL is expected"
    elif url is not None and _torn(url):
        yield ("storage", "redis"), _TORN


def _torn(url: str) -> bool:
    """Whether a password breaks the URL that it stands in: it holds `@`, `/`, `?` or `#`."""
    rest = url.partition("://")[2]
    authority = _END_OF_AUTHORITY.split(rest, maxsplit=1)[0]
    path, _, query = rest[len(authority) :].partition("?")
    if "@" in path or authority.count("@") > 1:
        return True
    return "@" not in authority and "@" in query and "=" not in query.partition("@")[0]
