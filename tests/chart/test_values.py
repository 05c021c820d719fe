"""What the values do."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from tests.chart.conftest import CHART, ROOT, Objects, Render, config, container, scenario

REDIS_AND_POSTGRES = {"redis": {"existingSecret": "dbs"}, "postgres": {"existingSecret": "dbs"}}


def deployment(objects: Objects) -> dict[str, Any]:
    return objects["Deployment", "armory"]["spec"]


def pod(objects: Objects) -> dict[str, Any]:
    return deployment(objects)["template"]["spec"]


def environment(objects: Objects) -> dict[str, Any]:
    return {one["name"]: one for one in container(objects)["env"]}


def mounted(objects: Objects, volume: str) -> Any:
    return next(one for one in pod(objects)["volumes"] if one["name"] == volume)


def test_the_schema_is_the_one_that_the_code_writes() -> None:
    script = ROOT / "deploy" / "helm" / "schema.py"
    command = f"import runpy; print(runpy.run_path({str(script)!r})['schema_text'](), end='')"
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    current = (CHART / "values.schema.json").read_text(encoding="utf-8")
    assert current == done.stdout, "run: python deploy/helm/schema.py"


def test_every_default_holds_and_every_value_is_used(chart: Any) -> None:
    chart.validate_schema({})
    properties: dict[str, Any] = chart.schema["properties"]
    assert set(chart.values) == set(properties) - {"global", "enabled"}
    texts = "".join(one["data"] for one in chart.templates)

    def used(node: dict[str, Any], path: tuple[str, ...]) -> None:
        for name, inner in node.items():
            place = ".".join((*path, name))
            assert f".{name}" in texts, place
            if isinstance(inner, dict) and inner and name not in _FREE:
                used(inner, (*path, name))

    used(chart.values, ())


_FREE = {
    "annotations", "labels", "resources", "podSecurityContext", "securityContext", "startupProbe",
    "livenessProbe", "readinessProbe",
}  # fmt: skip


def test_without_values_there_is_a_token_that_clients_can_be_given(render: Render) -> None:
    objects = render()
    assert config(objects)["security"] == {
        "tokens": {"main": {"token": "${ARMORY_TOKEN}", "scopes": ["admin"]}}
    }
    assert ("Secret", "armory-token") in objects
    source = environment(objects)["ARMORY_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert source == {"name": "armory-token", "key": "ARMORY_TOKEN"}


OTHERS: dict[str, dict[str, Any]] = {
    "tokens": {"tokens": {"ops": {"token": "${OPS}"}}},
    "keys": {"api_keys": True},
    "jwt": {"jwt": {"jwks_url": "https://id.example/keys"}},
    "everybody": {"allow_anonymous": True},
}


@pytest.mark.parametrize("how", OTHERS)
def test_who_says_otherwise_who_may_connect_gets_exactly_that(render: Render, how: str) -> None:
    objects = render({"config": {"security": OTHERS[how], "accounts": {"enabled": True}}})
    assert config(objects)["security"] == OTHERS[how]
    assert ("Secret", "armory-token") not in objects
    assert "ARMORY_TOKEN" not in environment(objects)


def test_the_token_main_can_be_replaced_and_joined(render: Render) -> None:
    other = {"token": "${OTHER}", "scopes": ["reader"]}
    objects = render({"config": {"security": {"tokens": {"main": other}}}})
    assert config(objects)["security"]["tokens"] == {"main": other}
    both = render({"token": {"enabled": True}, "config": {"security": {"tokens": {"ops": other}}}})
    assert set(config(both)["security"]["tokens"]) == {"main", "ops"}
    everybody = {"tokens": {}, "allow_anonymous": True}
    none = render({"token": {"enabled": False}, "config": {"security": everybody}})
    assert not config(none).get("security", {}).get("tokens")


@pytest.mark.parametrize(
    "values",
    [
        {"existingSecret": "mine"},
        {"extraEnvFrom": [{"secretRef": {"name": "mine"}}]},
        {"extraEnv": [{"name": "ARMORY_TOKEN", "value": "abc"}]},
    ],
)
def test_a_token_that_the_environment_brings_is_not_generated(
    render: Render, values: dict[str, Any]
) -> None:
    objects = render(values)
    assert ("Secret", "armory-token") not in objects
    assert "main" in config(objects)["security"]["tokens"]
    given = container(objects).get("envFrom") or [environment(objects).get("ARMORY_TOKEN")]
    assert given[0]


def test_a_config_map_brings_no_token(render: Render) -> None:
    objects = render({"extraEnvFrom": [{"configMapRef": {"name": "proxies"}}]})
    assert ("Secret", "armory-token") in objects
    assert environment(objects)["ARMORY_TOKEN"]["valueFrom"]


def test_pods_follow_the_config_maps_and_secrets_that_their_environment_is_from(
    render: Render,
) -> None:
    key = {"configMapKeyRef": {"name": "one", "key": "a"}}
    values = {
        "extraEnv": [{"name": "A", "valueFrom": key}],
        "extraEnvFrom": [{"configMapRef": {"name": "all"}}, {"secretRef": {"name": "hidden"}}],
    }
    template = render(values)["Deployment", "armory"]["spec"]["template"]
    notes = template["metadata"]["annotations"]  # nothing is there to have a version here
    assert notes["armory.dev/config-map-versions"] == "all= one="
    assert notes["armory.dev/secret-versions"] == "hidden="
    notes = render()["Deployment", "armory"]["spec"]["template"]["metadata"]["annotations"]
    assert not [name for name in notes if name.endswith("-versions")]


def test_pods_follow_the_config_maps_and_secrets_that_they_mount(render: Render) -> None:
    projected = [
        {"secret": {"name": "keys"}},
        {"configMap": {"name": "apis"}},
        {"downwardAPI": {"items": []}},
    ]
    volumes: list[dict[str, Any]] = [
        {"name": "ca", "secret": {"secretName": "ca"}},
        {"name": "skills", "configMap": {"name": "skills"}},
        {"name": "both", "projected": {"sources": projected}},
        {"name": "scratch", "emptyDir": {}},
    ]
    template = render({"extraVolumes": volumes})["Deployment", "armory"]["spec"]["template"]
    notes = template["metadata"]["annotations"]
    assert notes["armory.dev/secret-versions"] == "ca= keys="
    assert notes["armory.dev/config-map-versions"] == "skills= apis="


def test_a_token_of_another_secret_is_read_by_its_key(render: Render) -> None:
    objects = render({"token": {"existingSecret": "mine", "key": "password"}})
    source = environment(objects)["ARMORY_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert source == {"name": "mine", "key": "password"}
    assert ("Secret", "armory-token") not in objects


def test_each_configuration_has_a_map_of_its_own_that_never_changes(render: Render) -> None:
    one, other = render(), render({"config": {"observability": {"log_level": "debug"}}})
    names = {mounted(objects, "config")["configMap"]["name"] for objects in (one, other)}
    assert len(names) == 2
    for objects in (one, other):
        (found,) = [one for (kind, _), one in objects.items() if kind == "ConfigMap"]
        assert found["immutable"] is True


def test_live_reload_is_one_map_and_no_replaced_pods(render: Render) -> None:
    one = render({"configReload": "live"})
    other = render({"configReload": "live", "config": {"observability": {"log_level": "debug"}}})
    assert deployment(one) == deployment(other)
    assert "immutable" not in one["ConfigMap", "armory"]


def test_the_claim_outlives_the_release_and_may_be_another_one(render: Render) -> None:
    objects = render({"persistence": {"enabled": True}})
    claim = objects["PersistentVolumeClaim", "armory"]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    other = render({"persistence": {"enabled": True, "existingClaim": "mine"}})
    assert ("PersistentVolumeClaim", "armory") not in other
    assert mounted(other, "home")["persistentVolumeClaim"] == {"claimName": "mine"}


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteMany"])  # many nodes, one SQLite
def test_a_volume_does_not_make_every_change_an_outage(render: Render, mode: str) -> None:
    objects = render({"persistence": {"enabled": True, "accessModes": [mode]}})
    assert deployment(objects)["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    (term,) = pod(objects)["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    labels = deployment(objects)["template"]["metadata"]["labels"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    single = render({"persistence": {"enabled": True, "accessModes": ["ReadWriteOncePod"]}})
    assert deployment(single)["strategy"] == {"type": "Recreate"}


def test_replicas_are_spread_and_not_evicted_together(render: Render) -> None:
    objects = render({"replicas": 2, **REDIS_AND_POSTGRES})
    budget = objects["PodDisruptionBudget", "armory"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert {one["topologyKey"] for one in pod(objects)["topologySpreadConstraints"]} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    storage = config(objects)["storage"]
    assert storage == {"url": "${ARMORY_POSTGRES_URL}", "redis": "${ARMORY_REDIS_URL}"}
    for name, key in (("ARMORY_POSTGRES_URL", "url"), ("ARMORY_REDIS_URL", "url")):
        source = environment(objects)[name]["valueFrom"]["secretKeyRef"]
        assert source == {"name": "dbs", "key": key}
    assert ("PodDisruptionBudget", "armory") not in render()


def test_databases_may_come_as_variables_of_the_configuration(render: Render) -> None:
    storage = {"url": "${DATABASE_URL}", "redis": "${REDIS_URL}"}
    objects = render({"replicas": 2, "config": {"storage": storage}, "existingSecret": "mine"})
    assert config(objects)["storage"] == storage


def test_long_drains_have_longer_grace(render: Render) -> None:
    objects = render({"config": {"server": {"drain_timeout_s": 120, "drain_delay_s": 2.5}}})
    assert pod(objects)["terminationGracePeriodSeconds"] == 138
    assert config(objects)["server"]["drain_delay_s"] == 2.5
    drains: dict[str, Any] = {"drain_timeout_s": 2, "drain_delay_s": 0}
    for shorter in (drains, {**drains, "drain_timeout_s": "${DRAIN}"}):
        given = {"terminationGracePeriodSeconds": 7, "config": {"server": shorter}}
        assert pod(render(given))["terminationGracePeriodSeconds"] == 7


def test_clients_service_has_no_metrics(render: Render) -> None:
    objects = render()
    (port,) = objects["Service", "armory"]["spec"]["ports"]
    assert port["targetPort"] == "http"
    assert objects["Service", "armory-metrics"]["spec"]["type"] == "ClusterIP"
    assert config(objects)["server"]["metrics"] == {"port": 9090}
    assert "/metrics" not in str(objects)
    without = render({"metrics": {"enabled": False}})
    assert ("Service", "armory-metrics") not in without
    assert [port["name"] for port in container(without)["ports"]] == ["http"]


def test_routes_and_probes_follow_the_base_path(render: Render) -> None:
    objects = render(scenario("ingress"))
    (rule,) = objects["Ingress", "armory"]["spec"]["rules"]
    assert rule["http"]["paths"][0]["path"] == "/armory"
    (match,) = objects["HTTPRoute", "armory"]["spec"]["rules"][0]["matches"]
    assert match["path"]["value"] == "/armory"
    found = container(objects)
    for probe, path in (("livenessProbe", "healthz"), ("readinessProbe", "readyz")):
        assert found[probe]["httpGet"] == {"path": f"/armory/{path}", "port": "http"}


@pytest.mark.parametrize("base", ["", "/armory"])
def test_routes_pass_on_where_clients_look_for_the_metadata_of_oauth(
    render: Render, base: str
) -> None:
    values = scenario("ingress")
    values["config"]["server"]["base_path"] = base
    values["config"]["security"] = {"oauth": {"issuer": "https://login.example.org/"}}
    objects = render(values)
    (rule,) = objects["Ingress", "armory"]["spec"]["rules"]
    paths = [path["path"] for path in rule["http"]["paths"]]
    (route,) = objects["HTTPRoute", "armory"]["spec"]["rules"]
    assert [match["path"]["value"] for match in route["matches"]] == paths
    known = ("oauth-protected-resource", "oauth-authorization-server", "openid-configuration")
    below = [f"/.well-known/{name}{base}" for name in known]
    assert paths == ([base, *below] if base else ["/"])


def test_numbers_stay_numbers_and_texts_texts(render: Render) -> None:
    values = {
        "config": {
            "server": {"limits": {"body_bytes": 123456789}},
            "upstreams": {"a": {"command": "x", "env": {"ID": "00123456789", "ON": "true"}}},
        },
        "podAnnotations": {"id": "12345"},
        "nodeSelector": {"disk": "true"},
    }
    objects = render(values)
    assert config(objects)["server"]["limits"]["body_bytes"] == 123456789
    assert config(objects)["upstreams"]["a"]["env"] == {"ID": "00123456789", "ON": "true"}
    assert deployment(objects)["template"]["metadata"]["annotations"]["id"] == "12345"
    assert pod(objects)["nodeSelector"] == {"disk": "true"}


def test_everything_of_a_pod_can_be_added(render: Render) -> None:
    values = {
        "imagePullSecrets": [{"name": "login"}],
        "image": {"digest": "sha256:" + "a" * 64},
        "initContainers": [{"name": "first", "image": "i"}],
        "sidecars": [{"name": "beside", "image": "i"}],
        "extraVolumes": [{"name": "docs", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "docs", "mountPath": "/docs"}],
        "extraEnv": [{"name": "A", "value": "1"}],
        "podLabels": {"team": "tools"},
        "serviceAccount": {"create": False, "name": "mine"},
        "topologySpreadConstraints": [{"topologyKey": "rack"}],
        "priorityClassName": "high",
        "runtimeClassName": "gvisor",
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db"]}],
        "extraObjects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-x"}}
        ],
    }
    objects = render(values)
    spec = pod(objects)
    assert container(objects)["image"] == "armory@sha256:" + "a" * 64
    assert spec["imagePullSecrets"] == [{"name": "login"}]
    assert [one["name"] for one in spec["initContainers"]] == ["first"]
    assert [one["name"] for one in spec["containers"]] == ["armory", "beside"]
    assert {"name": "docs", "mountPath": "/docs"} in container(objects)["volumeMounts"]
    assert environment(objects)["A"]["value"] == "1"
    assert deployment(objects)["template"]["metadata"]["labels"]["team"] == "tools"
    assert spec["serviceAccountName"] == "mine"
    assert ("ServiceAccount", "mine") not in objects
    assert spec["topologySpreadConstraints"] == [{"topologyKey": "rack"}]
    assert (spec["priorityClassName"], spec["runtimeClassName"]) == ("high", "gvisor")
    assert spec["enableServiceLinks"] is False
    assert ("ConfigMap", "armory-x") in objects


def test_names_fit_their_release(render: Render) -> None:
    assert ("Deployment", "gw-armory") in render(name="gw")
    assert ("Deployment", "armory-eu") in render(name="armory-eu")
    long = render({"fullnameOverride": "x" * 80}, name="gw")
    assert all(len(name) <= 63 for _, name in long)


def test_notes_say_how_to_connect(chart: Any) -> None:
    def notes(values: dict[str, Any]) -> str:
        return chart.render(values, name="armory", namespace="tools")["armory/templates/NOTES.txt"]

    said = notes({})
    assert "get secret armory-token" in said
    assert "port-forward service/armory 8080:80" in said
    assert "no upstreams yet" in said
    behind = notes(scenario("ingress"))
    assert "https://tools.example.org/armory/mcp" in behind
    assert not re.search(r"get secret|no upstreams", behind)
