"""Queries that list users and keys, and the values that their rows become.

Owns: both, for the store and for a command that reads an SQLite file without SQLAlchemy. Imports
neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_MADE = "(SELECT created_at_ms FROM api_keys WHERE id = :after)"
_OLDER_KEYS = f"(created_at_ms < {_MADE} OR created_at_ms = {_MADE} AND id > :after)"


@dataclass(frozen=True, slots=True)
class User:
    """One user.

    Attributes:
        id: as API keys, JWTs and configuration name the user.
        plan: name of the plan, see `accounts.plans`.
        is_active: an inactive user's credentials are refused.
        created_at_ms: milliseconds since 1970.
    """

    id: str
    plan: str
    is_active: bool
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The stored facts about a key; never the key itself.

    Attributes:
        id: what it is revoked by.
        name: for people.
        user: whose it is; None for a service key, which no packs narrow.
        prefix: its first characters, to recognise it by.
        scopes: what it grants.
        created_at_ms, expires_at_ms, revoked_at_ms: milliseconds since 1970, None: never.
    """

    id: str
    name: str
    user: str | None
    prefix: str
    scopes: tuple[str, ...]
    created_at_ms: int
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A query and the function that converts its rows.

    Attributes:
        sql: of both dialects, with parameters such as `:limit`.
        values: of the parameters.
        row: makes one of the columns of a row; JSON is cast to text, which drivers give alike.
    """

    sql: str
    values: Mapping[str, Any]
    row: Callable[..., T]


def users_listed(*, after: str = "", limit: int = 1_000) -> Listing[User]:
    """Users by id, starting after `after`."""
    return Listing(
        "SELECT id, plan, is_active, created_at_ms FROM users WHERE id > :after"
        " ORDER BY id LIMIT :limit",
        {"after": after, "limit": limit},
        _user,
    )


def keys_listed(user: str | None = None, *, after: str = "", limit: int = 1_000) -> Listing[ApiKey]:
    """Keys of one user, or of all, newest first, starting after the key `after`."""
    values: dict[str, Any] = {"limit": limit}
    chosen: list[str] = []
    if user is not None:
        chosen.append("user_id = :user")
        values["user"] = user
    if after:
        chosen.append(_OLDER_KEYS)
        values["after"] = after
    where = f" WHERE {' AND '.join(chosen)}" if chosen else ""
    return Listing(
        "SELECT id, name, user_id, prefix, CAST(scopes AS TEXT),"
        " created_at_ms, expires_at_ms, revoked_at_ms"
        f" FROM api_keys{where} ORDER BY created_at_ms DESC, id LIMIT :limit",
        values,
        _key,
    )


def _user(user_id: str, plan: str, is_active: int, created_at_ms: int) -> User:
    return User(user_id, plan, bool(is_active), created_at_ms)


def _key(
    key_id: str, name: str, user: str | None, prefix: str, scopes: str, *times: int | None
) -> ApiKey:
    created_at_ms, expires_at_ms, revoked_at_ms = times
    assert created_at_ms is not None
    granted = tuple(json.loads(scopes))
    return ApiKey(key_id, name, user, prefix, granted, created_at_ms, expires_at_ms, revoked_at_ms)
