"""Values that are unusual: Kubernetes takes what comes of them all the same."""

from __future__ import annotations

from typing import Any

import kubernetes_validate as kubernetes
import pytest

from tests.chart.conftest import Objects, Render, config, container
from tests.chart.test_values import pod

RELEASES = ["my.armory.v1", "a" * 53, "a" * 49 + ".bc", "gw"]


def labels_of(one: dict[str, Any]) -> dict[str, str]:
    inner = one.get("spec", {}).get("template", {}).get("metadata", {})
    return {**one["metadata"].get("labels", {}), **inner.get("labels", {})}


def refused_by_the_api(objects: Objects) -> list[str]:
    """What an API server says no to and the schemas of Kubernetes do not know."""
    found: list[str] = []
    for (kind, name), one in objects.items():
        letters = set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        if not (len(name) <= 63 and letters and name[0].isalpha() and name[-1].isalnum()):
            found.append(f"{kind} {name}")
        for label, value in labels_of(one).items():
            bare = value.replace("-", "").replace("_", "").replace(".", "")
            ends = value and not (value[0].isalnum() and value[-1].isalnum())
            if len(value) > 63 or ends or (bare and not bare.isalnum()):
                found.append(f"{kind} {name}: {label}={value}")
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_any_release_has_names_that_kubernetes_takes(render: Render, release: str) -> None:
    assert refused_by_the_api(render(name=release)) == []


@pytest.mark.parametrize(
    "values",
    [
        {"nameOverride": "n" * 63},
        {"nameOverride": "tools.v1"},
        {"fullnameOverride": "x" * 48 + "--yy"},
        {"image": {"tag": "a" * 62 + "-bcd"}},
        {"image": {"tag": "_edge_"}},
    ],
    ids=str,
)
def test_any_name_and_tag_make_labels_that_kubernetes_takes(
    render: Render, values: dict[str, Any]
) -> None:
    assert refused_by_the_api(render(values)) == []


def test_lists_that_are_taken_away_have_defaults(render: Render) -> None:
    objects = render({"persistence": {"enabled": True, "accessModes": None}})
    claim = objects["PersistentVolumeClaim", "armory"]
    kubernetes.validate(claim, "1.33", strict=True)
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert "podAffinity" in pod(objects)["affinity"]
    main = config(render({"token": {"scopes": None}}))["security"]["tokens"]["main"]
    assert main["scopes"] == []


def test_resources_can_be_changed_one_by_one_and_taken_away(render: Render) -> None:
    asked = container(render({"resources": {"limits": {"memory": None, "cpu": 2}}}))["resources"]
    assert asked == {"requests": {"cpu": "250m", "memory": "384Mi"}, "limits": {"cpu": 2}}
    assert "resources" not in container(render({"resources": None}))


def test_metrics_that_are_off_have_no_port_and_no_service(render: Render) -> None:
    objects = render({"config": {"observability": {"metrics": False}}})
    assert [port["name"] for port in container(objects)["ports"]] == ["http"]
    assert ("Service", "armory-metrics") not in objects


def test_metrics_that_are_off_are_not_at_the_port_of_clients_either(render: Render) -> None:
    def metrics(**server: Any) -> tuple[Any, Any]:
        given = {"metrics": {"enabled": False}, "config": {"server": server}}
        found = config(render(given))
        return found.get("observability"), found["server"].get("metrics")

    assert metrics() == ({"metrics": False}, None)
    assert metrics(metrics={"token": "${T}"}) == ({"metrics": False}, {"token": "${T}"})
    # who names a port, or the one of clients, is asked for it
    for port in (9100, None):
        assert metrics(metrics={"port": port}) == (None, {"port": port})
    wanted = {"metrics": {"enabled": False}, "config": {"observability": {"metrics": True}}}
    assert config(render(wanted))["observability"] == {"metrics": True}


@pytest.mark.parametrize("interval", ["30s", "1m30s", "1h", "500ms"])
def test_intervals_are_those_of_prometheus(render: Render, interval: str) -> None:
    objects = render({"metrics": {"serviceMonitor": {"enabled": True, "interval": interval}}})
    (endpoint,) = objects["ServiceMonitor", "armory"]["spec"]["endpoints"]
    assert endpoint["interval"] == interval


def test_where_a_pod_may_run_does_not_part_it_from_its_volume(render: Render) -> None:
    only = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only}}
    objects = render({"persistence": {"enabled": True}, "affinity": affinity})
    assert set(pod(objects)["affinity"]) == {"nodeAffinity", "podAffinity"}
    own = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    objects = render({"persistence": {"enabled": True}, "affinity": own})
    assert pod(objects)["affinity"] == own
    for nothing in ({"podAffinity": {}}, {"podAffinity": {}, **affinity}):
        objects = render({"persistence": {"enabled": True}, "affinity": nothing})
        assert pod(objects)["affinity"]["podAffinity"]
    assert pod(render({"affinity": affinity}))["affinity"] == affinity


def test_labels_and_annotations_of_the_values_replace_those_of_the_chart(render: Render) -> None:
    part = {"app.kubernetes.io/part-of": "our-platform"}
    beside, policy = "kubectl.kubernetes.io/default-container", "helm.sh/resource-policy"
    objects = render(
        {
            "podLabels": part,
            "podAnnotations": {beside: "logs"},
            "persistence": {"enabled": True, "annotations": {policy: "delete"}},
            "metrics": {
                "serviceMonitor": {"enabled": True, "labels": part},
                "prometheusRule": {"enabled": True, "labels": part},
                "dashboard": {"enabled": True, "labels": part},
            },
        }
    )
    template = objects["Deployment", "armory"]["spec"]["template"]["metadata"]
    assert template["annotations"][beside] == "logs"
    assert template["labels"]["app.kubernetes.io/version"]
    claim = objects["PersistentVolumeClaim", "armory"]
    assert claim["metadata"]["annotations"] == {policy: "delete"}
    named = ("ServiceMonitor", "armory"), ("PrometheusRule", "armory")
    labelled = [objects[key]["metadata"] for key in (*named, ("ConfigMap", "armory-dashboard"))]
    labelled.append(template)
    for metadata in labelled:
        assert metadata["labels"].items() >= part.items()
        assert metadata["labels"]["app.kubernetes.io/name"] == "armory"


def test_the_test_asks_by_a_name_that_the_gateway_has(render: Render) -> None:
    def asked(*hosts: str, alone: bool = False) -> str:
        allowed: Any = hosts[0] if alone else list(hosts)
        objects = render({"config": {"server": {"allowed_hosts": allowed}}})
        return objects["Pod", "armory-test"]["spec"]["containers"][0]["command"][-1]

    assert '"$url/v1/tools" "tools.example.org"' in asked("tools.example.org", alone=True)
    assert '"$url/v1/tools" "tools.example.org"' in asked("tools.example.org", "armory.tools")
    for variable in ("${NAME}", "${env:NAME}"):  # which the shell fills in, too
        assert '"$url/v1/tools" "${NAME}"' in asked(variable)
    assert "no_proxy='*'" in asked()
    assert 'armory tools --url "$url/mcp"' in asked()
    assert 'armory tools --url "$url/mcp"' in asked("tools.example.org", "*")


def test_the_test_runs_where_the_gateway_may(render: Render) -> None:
    values = {
        "nodeSelector": {"kubernetes.io/arch": "arm64"},
        "tolerations": [{"key": "only", "operator": "Exists"}],
    }
    objects = render(values)
    for spec in (pod(objects), objects["Pod", "armory-test"]["spec"]):
        assert {key: spec[key] for key in values} == values


def test_names_of_services_are_found_where_dns_listens_elsewhere(render: Render) -> None:
    values = {"networkPolicy": {"enabled": True, "egress": {"restricted": True}}}
    policy = render(values)["NetworkPolicy", "armory"]
    kubernetes.validate(policy, "1.33", strict=True)
    ports = {(port["port"], port["protocol"]) for port in policy["spec"]["egress"][0]["ports"]}
    assert ports == {(53, "UDP"), (53, "TCP"), (5353, "UDP"), (5353, "TCP")}


def test_policies_may_say_all_that_kubernetes_takes(render: Render) -> None:
    chosen = {"key": "team", "operator": "In", "values": ["a", "b"]}
    peers = [
        {"podSelector": {}, "namespaceSelector": {"matchExpressions": [chosen]}},
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
    ]
    ports = [{"port": "https"}, {"port": 8000, "endPort": 8100, "protocol": "TCP"}]
    egress = {"restricted": True, "to": [{"to": peers, "ports": ports}, {"to": peers}]}
    given = {"enabled": True, "ingressFrom": peers, "metricsFrom": peers, "egress": egress}
    objects = render({"networkPolicy": given})
    policy = objects["NetworkPolicy", "armory"]
    kubernetes.validate(policy, "1.33", strict=True)
    assert policy["spec"]["egress"][-2:] == egress["to"]
    assert [rule["from"][:2] for rule in policy["spec"]["ingress"]] == [peers, peers]


def test_notes_name_the_address_of_clients_and_what_the_image_lacks(chart: Any) -> None:
    def notes(**values: Any) -> str:
        return chart.render(values, name="armory", namespace="tools")["armory/templates/NOTES.txt"]

    ingress = {"enabled": True, "hosts": ["tools.example.org"]}
    assert '"url": "http://tools.example.org/mcp"' in notes(ingress=ingress)
    tls = [{"secretName": "tls", "hosts": ["tools.example.org"]}]
    assert '"url": "https://tools.example.org/mcp"' in notes(ingress={**ingress, "tls": tls})
    fetched = {"upstreams": {"a": {"command": "npx"}}, "mcpServers": {"b": {"command": "uvx"}}}
    assert "may lack npx, uvx" in notes(config=fetched)
    assert "may lack npx" in notes(config={"servers": {"a": {"command": "npx"}}})
    assert "no upstreams yet" not in notes(config={"servers": {"a": {"command": "python"}}})
    assert "may lack" not in notes(config=fetched, image={"tag": "0.1.0-full"})
    assert "may lack npx, uvx" in notes(config=fetched, image={"tag": None})
    assert "may lack" not in notes(config={"upstreams": {"a": {"command": "python"}}})


def test_what_the_chart_sets_of_the_pods_user_may_be_left_to_the_cluster(render: Render) -> None:
    """OpenShift gives each namespace users of its own."""
    objects = render({"podSecurityContext": {"runAsUser": None, "fsGroup": None}})
    context = pod(objects)["securityContext"]
    assert context["runAsNonRoot"] is True
    assert not {"runAsUser", "fsGroup"} & set(context)
