"""What is valid and still said."""

from __future__ import annotations

import pytest

from armory.config import load_text, warnings_of

LOGS_IN = "security: {oauth: {issuer: 'https://login.example', client_id: armory}%s}\n"
HOSTS = "server: {allowed_hosts: [tools.example]}\n"
REDIS = "storage: {redis: 'redis://cache/0'}\n"
KEY = ", encryption_key: ['abcdefghijklmnopqrstuvwxyz012345']"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LOGS_IN % "" + HOSTS + REDIS, True),
        (LOGS_IN % "" + HOSTS, False),
        (LOGS_IN % KEY + HOSTS + REDIS, False),
        (HOSTS + REDIS, False),
    ],
)
def test_replicas_that_log_people_in_to_the_console_need_one_key(text: str, said: bool) -> None:
    warnings = warnings_of(load_text(text, environ={}).config)
    assert any("security.encryption_key" in warning for warning in warnings) == said
