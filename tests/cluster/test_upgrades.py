"""What an upgrade finds in the cluster, and leaves as it is."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.cluster.conftest import Cluster, Failed

pytestmark = pytest.mark.timeout(300)


def replicas(cluster: Cluster) -> int:
    return cluster.get("deployment", "armory")["spec"]["replicas"]


def test_an_autoscaler_takes_over_without_ending_replicas(cluster: Cluster) -> None:
    shared = ("dbs", "--from-literal=url=redis://nowhere.invalid")
    cluster.kubectl("create", "secret", "generic", *shared)
    databases: dict[str, Any] = {"existingSecret": "dbs"}
    values: dict[str, Any] = {"redis": databases, "postgres": databases, "replicas": 3}
    cluster.helm("install", "armory", values=values)
    scaled = {**values, "autoscaling": {"enabled": True, "minReplicas": 2}}
    cluster.helm("upgrade", "armory", values=scaled)
    assert replicas(cluster) == 3
    cluster.kubectl("scale", "deployment/armory", "--replicas=5")  # as the autoscaler does
    cluster.helm("upgrade", "armory", values={**scaled, "podAnnotations": {"a": "b"}})
    assert replicas(cluster) == 5
    cluster.kubectl("scale", "deployment/armory", "--replicas=0")
    cluster.helm("upgrade", "armory", values=scaled)
    assert replicas(cluster) == 0
    cluster.helm("upgrade", "armory", values=values)
    assert replicas(cluster) == 3


def test_a_configuration_that_came_back_stays_while_the_next_one_fails(cluster: Cluster) -> None:
    def changed(command: str, number: int) -> str:
        level: Any = {"config": {"server": {"limits": {"streams": 1_000 + number}}}}
        cluster.helm(command, "armory", values=level)
        spec = cluster.get("deployment", "armory")["spec"]["template"]["spec"]
        return next(one["configMap"]["name"] for one in spec["volumes"] if one["name"] == "config")

    first = changed("install", 0)
    for number in range(1, 10):  # with the first, all the maps that a release keeps
        changed("upgrade", number)
    assert changed("upgrade", 0) == first
    for number in (11, 12):  # two that do not get ready, so that pods of the first one go on
        changed("upgrade", number)
        assert cluster.get("configmap", first)


def test_large_configurations_do_not_fill_the_release(cluster: Cluster) -> None:
    """Helm keeps all of a release in one Secret, which takes a megabyte."""
    noise = random.Random(0)
    names: list[str] = []
    for command in ("install", *["upgrade"] * 6):
        upstream = {"command": "true", "env": {"NOISE": f"{noise.getrandbits(800_000):x}"}}
        cluster.helm(command, "armory", values={"config": {"upstreams": {"up": upstream}}})
        spec = cluster.get("deployment", "armory")["spec"]["template"]["spec"]
        names += [one["configMap"]["name"] for one in spec["volumes"] if one["name"] == "config"]
        for name in names[-3:]:
            assert cluster.get("configmap", name)
    assert len(set(names)) == len(names)


def test_a_deleted_token_is_made_anew_and_the_pods_with_it(cluster: Cluster) -> None:
    def made() -> tuple[str, Any]:
        return cluster.token(), cluster.get("deployment", "armory")["spec"]["template"]

    cluster.helm("install", "armory")
    before = made()
    cluster.helm("upgrade", "armory")
    assert made() == before
    cluster.kubectl("delete", "secret", "armory-token")
    cluster.helm("upgrade", "armory")
    after = made()
    assert after[0] != before[0]
    assert after[1] != before[1]
    cluster.helm("upgrade", "armory")
    assert made() == after
    cluster.helm("rollback", "armory", "1")
    assert made() == before


def test_a_secret_without_the_token_of_clients_is_refused_before_pods_are(
    cluster: Cluster,
) -> None:
    cluster.kubectl("create", "secret", "generic", "mine", "--from-literal=DOCS_TOKEN=1")
    values: dict[str, Any] = {"existingSecret": "mine"}
    with pytest.raises(Failed, match="Secret mine has no ARMORY_TOKEN"):
        cluster.helm("install", "armory", values=values)
    cluster.helm("install", "armory", values={**values, "token": {"enabled": True}})
    cluster.kubectl("patch", "secret", "mine", "-p", '{"stringData": {"ARMORY_TOKEN": "a"}}')
    cluster.helm("upgrade", "armory", values=values)


@pytest.mark.parametrize(
    ("kind", "ref", "change"),
    [("secret", "secret", "stringData"), ("configmap", "configMap", "data")],
)
def test_what_is_in_environment_or_volumes_replaces_the_pods_at_the_next_upgrade(
    cluster: Cluster, kind: str, ref: str, change: str
) -> None:
    def template() -> Any:
        cluster.helm("upgrade", "armory", values=values)
        return cluster.get("deployment", "armory")["spec"]["template"]

    named = {f"{ref}KeyRef": {"name": "one", "key": "a"}}
    mounted = {"secretName": "mounted"} if kind == "secret" else {"name": "mounted"}
    values: dict[str, Any] = {
        "extraEnv": [{"name": "A", "valueFrom": named}],
        "extraEnvFrom": [{f"{ref}Ref": {"name": "all"}}],
        "extraVolumes": [{"name": "mounted", ref: mounted}],
    }
    for name in ("one", "all", "mounted"):
        generic = ["generic"] if kind == "secret" else []
        cluster.kubectl("create", kind, *generic, name, "--from-literal=a=1")
    cluster.helm("install", "armory", values=values)
    before = template()
    assert template() == before
    for name in ("one", "all", "mounted"):
        cluster.kubectl("patch", kind, name, "-p", json.dumps({change: {"a": "2"}}))
        after = template()
        assert after != before, name
        before = after
