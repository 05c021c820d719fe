"""Builds the pinned definitions, and announces approvals to other replicas.

Owns: the place, one for each configuration file, so that two projects with a server of the same
name share nothing; and telling other replicas what was approved at one. Opens nothing but the
file.
"""

from __future__ import annotations

import asyncio
import hashlib

from armory.accounts.service import Accounts
from armory.config import Config, Loaded
from armory.errors import BackendError
from armory.logger import Logger
from armory.runtime.catalog.keeper import CatalogKeeper
from armory.security.pinning import Changed, Pinning
from armory.security.settings import PinningMode

_log = Logger(__name__)
APPROVED = "approved"
"""Topic: a changed definition was approved."""

_FOLDER = "pins"
_SHARED = "pins.json"
"""File of earlier versions, with the definitions of all projects."""


def pinning_mode(config: Config, *, trusted: bool) -> PinningMode:
    """What is done about changed definitions; the operator's own commands look at nothing."""
    return "off" if trusted else config.security.pinning


def pinning_of(loaded: Loaded, mode: PinningMode) -> Pinning:
    """The pinned definitions of one configuration file (or of the current folder)."""
    path = loaded.place_in(loaded.home / _FOLDER, ".json")
    return Pinning(
        path,
        mode,
        project=loaded.project,
        before=loaded.home / _SHARED,
        configured=loaded.config.upstreams,
    )


def follow_approvals(accounts: Accounts, keeper: CatalogKeeper) -> None:
    """Approve here what another replica approved, if the same definition is withheld."""

    async def approved(id: str) -> None:
        pinning = keeper.pinning
        withheld = () if pinning is None else tuple(pinning.withheld.values())
        for change in withheld:
            if pinning is not None and _id(change) == id:
                try:
                    await asyncio.to_thread(pinning.take, change)
                except OSError as error:
                    _log.error("pins_not_stored", error=str(error))
                keeper.build_again()  # the feed does not wait for it

    accounts.feed.subscribe(APPROVED, approved)


async def tell_approved(accounts: Accounts | None, change: Changed) -> None:
    """Announce an approval to the other replicas; lost while the database is away."""
    if accounts is None:
        return
    try:
        async with accounts.feed.transaction() as transaction:
            transaction.changed(APPROVED, _id(change))
    except BackendError as error:
        _log.warning("approval_not_told", tool=change.name, error=error.message)


def _id(change: Changed) -> str:
    """Identifies a tool with its current definition: replicas that withhold another definition are
    not concerned.
    """
    return hashlib.sha256(f"{change.name} {change.now}".encode()).hexdigest()
