from __future__ import annotations

from typing import Any

import pytest

from armory.domain.principal import Principal
from armory.errors import ConfigError
from armory.upstreams.oauth.grants import ClientCredentials
from armory.upstreams.spec import UpstreamSpec


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "exactly one of 'command', 'url', 'openapi' and 'skills'"),
        ({"url": "http://x", "skills": "./s"}, "exactly one of"),
        ({"skills": "./s", "auth": ClientCredentials("me")}, "takes no access token"),
        ({"url": "http://x", "openapi": "x.json"}, "exactly one of"),
        ({"url": "http://x", "include": ("a",)}, "it belongs to 'openapi'"),
        ({"url": "http://x", "base_url": "http://x"}, "it belongs to 'openapi'"),
        ({"command": "a", "url": "http://b"}, "exactly one"),
        ({"url": "http://b", "transport": "stdio"}, "needs a 'command'"),
        ({"command": "a", "transport": "sse"}, "needs a 'url'"),
        ({"command": "a", "protocol": "2020-01-01"}, "unknown revision '2020-01-01'"),
        ({"command": "a", "args": ("${principal}",), "isolation": "shared"}, "isolation"),
        ({"command": "a", "max_sessions": 1}, "max_sessions.*leaves none to callers"),
        ({"url": "http://a", "transport": "sse", "max_sessions": 1}, "max_sessions.*leaves none"),
    ],
)
def test_what_cannot_be_is_refused_with_its_path(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^upstreams\.up.*{message}"):
        UpstreamSpec("up", **wrong)


def test_principal_is_filled_in_everywhere() -> None:
    ann = Principal("ann")
    spec = UpstreamSpec(
        "up",
        command="run",
        args=("--file", "/data/${principal}.json"),
        env={"WHO": "${principal}"},
        headers={"X-Who": "<${principal}>"},
        cwd="/home/${principal}",
    )
    assert spec.templated
    filled = spec.filled_for(ann)
    name = ann.file_safe
    assert filled.args == ("--file", f"/data/{name}.json")
    assert (filled.env, filled.headers) == ({"WHO": name}, {"X-Who": f"<{name}>"})
    assert filled.cwd == f"/home/{name}"
    assert filled.filled_for(Principal("bob")) is filled


def test_without_a_template_nothing_is_copied() -> None:
    spec = UpstreamSpec("up", url="http://a")
    assert not spec.templated
    assert not spec.is_stdio
    assert spec.filled_for(Principal("ann")) is spec
