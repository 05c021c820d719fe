"""Every scenario of the chart: taken by Kubernetes, by Armory, and by the restricted standard."""

from __future__ import annotations

from typing import Any

import kubernetes_validate as kubernetes
import pytest
import yaml

from armory.config import load_text
from armory.runtime.settings import problems_of
from tests.chart.conftest import CHART, SCENARIOS, Objects, Render, config, container, scenario

VERSIONS = ("1.27", "1.30", "1.33", "1.36")
CUSTOM = {"ServiceMonitor", "PrometheusRule", "HTTPRoute"}
"""Kinds that Kubernetes' own schemas do not know."""
ENVIRONMENT = {
    "ARMORY_TOKEN": "a-long-random-text",
    "ARMORY_POSTGRES_URL": "postgresql://armory:secret@postgres/armory",
    "ARMORY_REDIS_URL": "redis://redis:6379/0",
    "DOCS_TOKEN": "of-the-docs",
}
ALL = ["defaults", *SCENARIOS]


@pytest.fixture(params=ALL)
def objects(request: pytest.FixtureRequest, render: Render) -> Objects:
    return render({} if request.param == "defaults" else scenario(request.param))


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_it(objects: Objects, version: str) -> None:
    for (kind, name), one in objects.items():
        if kind in CUSTOM:
            continue
        try:
            kubernetes.validate(one, version, strict=True)
        except kubernetes.ValidationError as error:
            pytest.fail(f"{kind} {name}: {error.message}")


def test_armory_takes_the_configuration_and_it_is_the_one_that_is_mounted(
    objects: Objects,
) -> None:
    loaded = load_text(yaml.safe_dump(config(objects)), environ=ENVIRONMENT)
    assert problems_of(loaded) == []
    assert loaded.config.server.host == "::"
    names = [entry["name"] for entry in container(objects).get("env", [])]
    assert len(names) == len(set(names))


def test_pods_hold_to_the_restricted_standard(objects: Objects) -> None:
    pods = [objects["Deployment", "armory"]["spec"]["template"]["spec"]]
    pods.append(objects["Pod", "armory-test"]["spec"])
    for pod in pods:
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for one in pod["containers"]:
            inner = one["securityContext"]
            assert inner["allowPrivilegeEscalation"] is False, one["name"]
            assert inner["capabilities"] == {"drop": ["ALL"]}, one["name"]
    assert container(objects)["securityContext"]["readOnlyRootFilesystem"] is True


def _matches(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def test_what_names_something_else_finds_it(objects: Objects) -> None:
    deployment = objects["Deployment", "armory"]["spec"]
    pod = deployment["template"]
    labels = pod["metadata"]["labels"]
    assert _matches(deployment["selector"]["matchLabels"], labels)
    ports = {port["name"] for port in container(objects)["ports"]}
    for (kind, _), one in objects.items():
        spec: Any = one.get("spec", {})
        if kind == "Service":
            assert _matches(spec["selector"], labels)
            assert not _matches(
                spec["selector"], objects["Pod", "armory-test"]["metadata"]["labels"]
            )
            assert {port["targetPort"] for port in spec["ports"]} <= ports
        elif kind == "ServiceMonitor":
            service = objects["Service", "armory-metrics"]
            assert _matches(spec["selector"]["matchLabels"], service["metadata"]["labels"])
            assert not _matches(
                spec["selector"]["matchLabels"], objects["Service", "armory"]["metadata"]["labels"]
            )
            served = {port["name"] for port in service["spec"]["ports"]}
            assert {endpoint["port"] for endpoint in spec["endpoints"]} <= served
        elif kind == "PodDisruptionBudget":
            assert _matches(spec["selector"]["matchLabels"], labels)
        elif kind == "HorizontalPodAutoscaler":
            assert spec["scaleTargetRef"]["name"] == "armory"
            assert "replicas" not in deployment
        elif kind == "HTTPRoute":
            assert objects["Service", spec["rules"][0]["backendRefs"][0]["name"]]
    mounted = {mount["name"] for mount in container(objects)["volumeMounts"]}
    assert mounted <= {volume["name"] for volume in pod["spec"]["volumes"]}
    account = pod["spec"]["serviceAccountName"]
    assert ("ServiceAccount", account) in objects


def test_the_grace_period_is_longer_than_the_end_takes(objects: Objects) -> None:
    server = load_text(yaml.safe_dump(config(objects)), environ=ENVIRONMENT).config.server
    pod = objects["Deployment", "armory"]["spec"]["template"]["spec"]
    longest = server.drain_delay_s + server.drain_timeout_s
    assert pod["terminationGracePeriodSeconds"] >= longest + 10


def test_helm_s_own_lint_finds_nothing() -> None:
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed")
    for name in SCENARIOS:
        report = helm.lint(CHART, values=scenario(name), strict=True, kube_version="v1.33.0")
        said = [m for m in report["messages"] if "icon is recommended" not in m["error"]]
        assert (report["errors"], said) == ([], [])
