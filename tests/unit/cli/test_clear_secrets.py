"""Secrets that another client's file holds in clear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from armory.cli.config.clear_secrets import moved


@pytest.mark.parametrize("scheme", ["Bearer ", "basic ", "ApiKey ", "Api-Key  ", ""])
def test_the_scheme_of_a_header_stays_and_the_secret_goes(scheme: str, tmp_path: Path) -> None:
    headers = {"Authorization": f"{scheme}abc-def-123"}
    upstreams: dict[str, Any] = {"hub": {"url": "https://hub.example", "headers": headers}}
    (variable, value), *rest = moved(upstreams, tmp_path / ".env").items()
    assert (headers["Authorization"], value, rest) == (
        f"{scheme}${{{variable}}}",
        "abc-def-123",
        [],
    )
