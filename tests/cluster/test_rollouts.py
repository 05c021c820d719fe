"""Replicas on a real cluster, restarted and evicted under load."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.conftest import RATE, RESTARTS, Cluster, Failed, Load, several, until

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.redis, pytest.mark.postgres]
WAIT = ("--wait", "--timeout", "240s")
ROLLED_OUT = ("rollout", "status", "deployment/armory", "--timeout=300s")


def all_ready(cluster: Cluster, number: int) -> Any:
    return until(
        lambda: len(cluster.ready_pods()) == number == len(cluster.pods()),
        f"{number} replicas do not become ready",
        300,
    )


def test_rolling_restarts_lose_no_call(
    cluster: Cluster, databases: Any, load: Callable[..., Load]
) -> None:
    cluster.helm("install", "armory", *WAIT, values=several(cluster, databases, 3))
    cluster.helm("test", "armory")
    sessions = 20
    with load("--sessions", str(sessions)) as running:
        for _ in range(RESTARTS):
            cluster.kubectl("rollout", "restart", "deployment/armory")
            cluster.kubectl(*ROLLED_OUT)
            all_ready(cluster, 3)
    told = running.told
    assert told["failed"] == 0, told
    assert told["calls_a_second"] > 0.95 * float(RATE), told
    # a session ends at most once with each of the pods that it can have been at
    assert 0 < told["sessions_ended"] <= sessions * 4 * RESTARTS, told


def evict(cluster: Cluster, name: str) -> bool:
    """Whether the disruption budget lets the pod be evicted, which it is then."""
    asked = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": cluster.namespace},
    }
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{name}/eviction"
    try:
        cluster.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(asked))
    except Failed as error:
        if "disruption budget" not in str(error):
            raise
        return False
    return True


def test_both_replicas_are_evicted_and_no_call_is_lost(
    cluster: Cluster, databases: Any, load: Callable[..., Load]
) -> None:
    cluster.helm("install", "armory", *WAIT, values=several(cluster, databases, 2))
    refusals = 0
    with load() as running:
        for name in [pod["metadata"]["name"] for pod in cluster.ready_pods()]:
            while not evict(cluster, name):
                refusals += 1
                all_ready(cluster, 2)
        all_ready(cluster, 2)
    assert refusals > 0  # the second one had to wait for the first one's successor
    assert running.told["failed"] == 0, running.told
