"""What a changed configuration is said to do: compared with what is in force, not with a file."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from armory.config import Config, Loaded, load_text
from armory.domain.principal import ANONYMOUS
from armory.runtime import open_runtime, running
from armory.runtime.reloading import difference, in_force
from armory.runtime.settings import Reloadable, reloadable
from armory.security.packs import Packs

BEGAN: dict[str, Any] = {"server": {"port": 8091}, "tool_rag": {"max_tools": 5}}
PORT: dict[str, Any] = {"server": {"port": 8095}}
TOKENS: dict[str, Any] = {"security": {"tokens": {"t": {"token": "a-token-long-enough"}}}}
KEY: dict[str, Any] = {"security": {"encryption_key": ["a-key-that-is-long-enough"]}}
MODEL: dict[str, Any] = {"tool_rag": {"max_tools": 5, "embedding_model": "hash"}}
FEWER: dict[str, Any] = {"tool_rag": {"max_tools": 4}}
LOGINS: dict[str, Any] = {
    "upstreams": {
        key: {
            "url": f"https://{key}.example/mcp",
            "auth": {"type": "authorization_code", "per": "principal"},
        }
        for key in ("docs", "mail")
    }
}
BOTH: dict[str, Any] = {"tool_rag": {"max_tools": 4, "embedding_model": "hash"}}


def config(*changes: dict[str, Any]) -> Config:
    blocks = dict(BEGAN)
    for change in changes:
        blocks.update(change)
    return load_text(json.dumps(blocks)).config


@pytest.mark.parametrize(
    ("last", "new", "applied", "needs_restart"),
    [
        (config(), config(PORT), [], ["server"]),
        (config(PORT), config(PORT), [], ["server"]),  # read before, and still due
        (config(PORT), config(PORT, FEWER), ["tool_rag"], ["server"]),
        (config(PORT), config(), [], []),  # taken back before a restart
        (config(TOKENS), config(TOKENS), [], ["security.tokens"]),
        (config(TOKENS), config(), [], []),
        (config(), config(KEY), [], ["security.encryption_key"]),
        (config(MODEL), config(), [], []),
        (config(MODEL), config(BOTH), ["tool_rag"], ["tool_rag.embedding_model"]),
        (config(BOTH), config(), ["tool_rag"], []),
        (config(FEWER), config(FEWER), [], []),
        (
            config(),
            config(LOGINS),  # there are no pages to log in at
            ["upstreams"],
            ["upstreams.docs.auth", "upstreams.mail.auth"],
        ),
    ],
)
def test_what_takes_a_restart_is_compared_with_what_runs(
    last: Config, new: Config, applied: list[str], needs_restart: list[str]
) -> None:
    report = difference(config(), in_force(config(), last), new)
    assert (report.applied, report.needs_restart) == (applied, needs_restart)


def test_what_takes_a_restart_is_as_it_was_and_the_rest_as_it_was_read() -> None:
    held = in_force(config(), config(PORT, TOKENS, BOTH))
    assert (held.server.port, held.security.tokens) == (8091, {})
    assert (held.tool_rag.max_tools, held.tool_rag.embedding_model) == (4, "embedded")
    assert in_force(config(LOGINS), config()).upstreams == {}


def test_where_people_log_in_already_another_upstream_is_added_at_once() -> None:
    began = config({"upstreams": {"docs": LOGINS["upstreams"]["docs"]}})
    assert difference(began, began, config(LOGINS)).needs_restart == []


@pytest.mark.anyio
async def test_a_reload_takes_the_configuration_apart_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[threading.Thread] = []

    def noted(loaded: Loaded, packs: Packs | None = None) -> Reloadable:
        seen.append(threading.current_thread())
        return reloadable(loaded, packs)

    def loaded(allowed: str) -> Loaded:
        blocks = {
            "security": {"policies": [{"allow": [allowed]}]},
            "tool_rag": {"enabled": False},
        }
        return load_text(json.dumps(blocks), environ={"ARMORY_HOME": str(tmp_path)})

    async with open_runtime(loaded("*")) as runtime:
        monkeypatch.setattr(running, "reloadable", noted)
        report = await runtime.reload(loaded("docs__*"))
        assert report.applied == ["security"]
        policy = runtime.gateway.view.policy
        assert [policy.allows(ANONYMOUS, name) for name in ("docs__a", "b")] == [True, False]
    assert seen != []
    assert threading.main_thread() not in seen
