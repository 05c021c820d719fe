"""The official conformance suite, against the fixture and through the gateway, in six cells.

A cell is the era that the upstream is pinned to, and the requirement set that the suite runs at.
Whatever the fixture passes when it is reached directly, it passes behind `/mcp/{server}`. The one
whose era is left to the gateway has tools that ask in the way of one era alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from armory.testing.processes import GatewayProcess

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

MANIFEST = Path(__file__).parents[1] / "requirements.yml"
REVISIONS = ["2026-07-28", "2025-11-25"]
EXPECTED: dict[str, list[dict[str, str]]] = yaml.safe_load(
    (Path(__file__).parent / "expected-failures.yml").read_text(encoding="utf-8")
)


class Outcome(Protocol):
    """One run of the suite; see conftest."""

    failing: dict[str, list[str]]
    warned: dict[str, list[str]]
    passed: int
    messages: list[str]


LATE = {("input-required-result-multiple-input-requests", "sep-2322-multiple-inputs-incomplete")}
"""Three questions travel together where they come within 30 ms of each other, which a machine that
is very busy may miss once."""
Run = Callable[[str, str], Outcome]
Requirements = Callable[[str], dict[str, Any]]


def failures(outcome: Outcome) -> set[tuple[str, str]]:
    """Each check that failed, with its scenario."""
    return {(scenario, check) for scenario, ids in outcome.failing.items() for check in ids}


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_fixture_passes_by_itself(
    fixture_url: str, run_server_suite: Run, requirements: Requirements, revision: str
) -> None:
    outcome = run_server_suite(fixture_url, revision)
    scored = requirements(revision)["server"]
    assert not set(scored) & outcome.failing.keys(), "\n".join(outcome.messages)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("era", ["auto", "modern", "legacy"])
def test_nothing_is_lost_behind_the_gateway(
    fixture_url: str,
    one_way_url: str,
    gateway: GatewayProcess,
    run_server_suite: Run,
    era: str,
    revision: str,
) -> None:
    direct = run_server_suite(one_way_url if era == "auto" else fixture_url, revision)
    through = run_server_suite(f"{gateway.url}/mcp/{era}", revision)
    expected = {(e["scenario"], e["check"]) for e in EXPECTED.get(f"{era}/{revision}", [])}
    known = failures(direct)
    failed = failures(through)
    lost = failed - known - expected
    if lost and lost <= LATE:
        lost &= failures(run_server_suite(f"{gateway.url}/mcp/{era}", revision))
    assert not lost, "\n".join(through.messages)
    assert expected <= failed, f"these pass now, take them out: {sorted(expected - failed)}"
    assert through.passed >= direct.passed - 3 - 3 * len(expected)


CLIENT_SCENARIOS = [
    ("2026-07-28", "tools_call"),
    ("2026-07-28", "request-metadata"),
    ("2026-07-28", "sep-2322-client-request-state"),
    ("2026-07-28", "http-standard-headers"),
    ("2026-07-28", "http-custom-headers"),
    ("2026-07-28", "http-invalid-tool-headers"),
    ("2026-07-28", "json-schema-ref-no-deref"),
    ("2026-07-28", "json-schema-2020-12-preservation"),
    ("2026-07-28", "auth/client-credentials-basic"),
    ("2026-07-28", "auth/client-credentials-jwt"),
    ("2026-07-28", "auth/enterprise-managed-authorization"),
    ("2025-11-25", "initialize"),
    ("2025-11-25", "tools_call"),
    ("2025-11-25", "elicitation-sep1034-client-defaults"),
    ("2025-11-25", "sse-retry"),
]
"""Every scored one but those in which a person logs in (below), and those of extensions that are
not scored and the gateway has: not DPoP, and not the identity of a workload."""


LOGGING_IN = {
    "2025-11-25": (
        "metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd",
        "scope-from-www-authenticate", "scope-from-scopes-supported",
        "scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit",
        "token-endpoint-auth-basic", "token-endpoint-auth-post", "token-endpoint-auth-none",
        "pre-registration",
    ),
    "2026-07-28": (
        "resource-mismatch", "offline-access-scope", "offline-access-not-supported",
        "authorization-server-migration", "iss-supported", "iss-not-advertised",
        "iss-supported-missing", "iss-wrong-issuer", "iss-unexpected", "iss-normalized",
        "metadata-issuer-mismatch",
    ),
}  # fmt: skip
"""The scored `auth/*` scenarios, by the revision that brought them; the newer one has them all."""
ALL_CLIENT_SCENARIOS = [*CLIENT_SCENARIOS] + [
    (revision, f"auth/{name}")
    for revision in REVISIONS
    for since, names in LOGGING_IN.items()
    for name in names
    if since <= revision
]


@pytest.mark.parametrize(("revision", "scenario"), ALL_CLIENT_SCENARIOS)
def test_the_gateway_is_a_conformant_client(
    run_client_scenario: Run, revision: str, scenario: str
) -> None:
    outcome = run_client_scenario(scenario, revision)
    assert not outcome.failing, "\n".join(outcome.messages)


@pytest.mark.parametrize("revision", REVISIONS)
def test_no_client_scenario_is_forgotten(requirements: Requirements, revision: str) -> None:
    scored = set(requirements(revision)["client"])
    assert scored <= {name for at, name in ALL_CLIENT_SCENARIOS if at == revision}


def test_every_expected_failure_says_why() -> None:
    for cell, entries in EXPECTED.items():
        era, _, revision = cell.partition("/")
        assert (era in ("auto", "modern", "legacy"), revision in REVISIONS) == (True, True)
        assert all(len(entry["reason"]) > 40 for entry in entries)


def test_the_manifest_names_scenarios_that_run(requirements: Requirements) -> None:
    named = re.findall(r'"conformance: ([a-z0-9-]+)"', MANIFEST.read_text(encoding="utf-8"))
    known: set[str] = set()
    for revision in REVISIONS:
        listed = requirements(revision)
        known.update(listed["server"], (entry["scenario"] for entry in listed["not_scored"]))
    assert set(named) <= known, sorted(set(named) - known)
