"""The chart as Helm renders it, without a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "armory"
SCENARIOS = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").iterdir())

Objects = dict[tuple[str, str], dict[str, Any]]
"""Manifests by kind and name."""
Render = Callable[..., Objects]


def scenario(name: str) -> dict[str, Any]:
    """The values of one scenario."""
    return yaml.safe_load((CHART / "ci" / f"{name}-values.yaml").read_text(encoding="utf-8"))


class _EachKeyOnce(yaml.SafeLoader):
    """Refuses a key that is there twice, as Flux and kustomize do, and PyYAML does not."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [name.value for name, _ in node.value]
        assert len(names) == len(set(names)), f"a key twice: {names}"
        return super().construct_mapping(node, deep)


def parsed(text: str) -> Objects:
    """The manifests of a text; the same object twice is a defect of the chart."""
    found: Objects = {}
    for one in yaml.load_all(text, _EachKeyOnce):
        if one is not None:
            key = one["kind"], one["metadata"]["name"]
            assert key not in found, key
            found[key] = one
    return found


@pytest.fixture(scope="session")
def chart() -> Iterator[Any]:
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed")
    with helm.Chart.load(CHART) as loaded:
        yield loaded


@pytest.fixture
def render(chart: Any) -> Render:
    """Manifests of values, as `helm install NAME` would apply them; NOTES.txt apart."""

    def rendered(values: dict[str, Any] | None = None, name: str = "armory") -> Objects:
        chart.validate_schema(values or {})
        texts: dict[str, str] = chart.render(values or {}, name=name, namespace="tools")
        texts = {path: text for path, text in texts.items() if path.endswith(".yaml")}
        return parsed("\n---\n".join(texts.values()))

    return rendered


def container(objects: Objects, name: str = "armory") -> dict[str, Any]:
    """The gateway's container."""
    spec = objects["Deployment", name]["spec"]["template"]["spec"]
    return next(one for one in spec["containers"] if one["name"] == "armory")


def config(objects: Objects) -> dict[str, Any]:
    """The armory.yaml that the pods read."""
    name = next(
        volume["configMap"]["name"]
        for volume in objects["Deployment", "armory"]["spec"]["template"]["spec"]["volumes"]
        if volume["name"] == "config"
    )
    return yaml.safe_load(objects["ConfigMap", name]["data"]["armory.yaml"])
