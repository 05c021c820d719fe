"""Hostile input: what is sent on purpose to stop, fill or slow down a gateway."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from armory.testing.identity import IdentityProvider
from armory.testing.people import World
from armory.testing.upstreams.accounts import AccountsServer
from tests.garbage import Gone, none_collected
from tests.hostile.regex_steps import Steps


@pytest.fixture
def steps_of() -> Iterator[Callable[[re.Pattern[Any], bool], Steps]]:
    """Counts the steps of an expression; true: it is only tried at the beginning of a text."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield Steps
    sys.setrecursionlimit(limit)


@pytest.fixture
def gone() -> Generator[Gone]:
    """Waits until nothing is left of what was made of a kind; nothing is collected."""
    with none_collected() as waiting:
        yield waiting


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    """A provider, and an upstream at which people have accounts."""
    async with (
        IdentityProvider() as provider,
        AccountsServer(provider.verified, provider.issuer) as upstream,
    ):
        made = World(provider, upstream, tmp_path)
        yield made
        await made.http.close()
