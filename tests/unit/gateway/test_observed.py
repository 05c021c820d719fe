"""What stands in for pool and retriever where somebody watches can do all that they can."""

from __future__ import annotations

import pytest

from armory.gateway import ports
from armory.gateway.observed import ObservedPool, ObservedRetriever


@pytest.mark.parametrize(
    ("watched", "plain"), [(ObservedPool, ports.Pool), (ObservedRetriever, ports.Retriever)]
)
def test_nothing_is_missing(watched: type, plain: type) -> None:
    wanted = {name for name in vars(plain) if not name.startswith("_")}
    assert wanted
    assert wanted - vars(watched).keys() == set()
