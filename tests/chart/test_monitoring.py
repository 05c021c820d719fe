"""Alerts and dashboard speak of metrics that there are, and the documents of every alert."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
import yaml

from armory.domain.principal import ANONYMOUS
from armory.domain.results import CallOutcome
from armory.observability.metrics import Metrics
from armory.observability.scraped import STORES, AuditFigures, EdgeFigures, UpstreamFigures
from armory.upstreams.breaker import Breaker
from tests.chart.conftest import CHART, ROOT, Render, scenario

FOREIGN = {"kube_pod_container_resource_limits"}
"""Of kube-state-metrics."""
_NAME = re.compile(r"\b(?:armory|process|kube)_\w+")


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Labels of every metric of a gateway that has served a call."""
    figures = UpstreamFigures(up=True, tools=1, sessions=1, in_flight=0, queued=0, breaker="closed")
    stores = dict.fromkeys(STORES, True)
    edge = EdgeFigures(1, 1, 0, {"sessions": 1}, {"header": 1})
    metrics = Metrics(lambda: {"a": figures}, lambda: edge, lambda: stores)
    metrics.watch_audit(lambda: AuditFigures(1, 0, 0, failing=False))
    metrics.called(ANONYMOUS, CallOutcome("a__b", ok=True, latency_ms=1.0))
    metrics.called(ANONYMOUS, CallOutcome("a__b", ok=False, latency_ms=1.0))
    metrics.answered("GET", "/docs", 200, 0.1)
    found: dict[str, set[str]] = {}
    for line in metrics.text().decode().splitlines():
        if match := re.match(r"(\w+)(?:\{(.*)\})? ", line):
            labels = set(re.findall(r'(\w+)="', match[2] or ""))
            found.setdefault(match[1], set()).update(labels)
        elif match := re.match(r"# TYPE (\w+) (\w+)", line):
            found.setdefault(match[1], set())  # a counter that has counted nothing yet
    return found


def alerts() -> list[dict[str, Any]]:
    return yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))


def expressions() -> dict[str, str]:
    found = {rule["alert"]: rule["expr"] for rule in alerts()}
    dashboard = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            found[f"{panel['title']} {target['refId']}"] = target["expr"]
    return found


def test_every_metric_that_is_asked_for_is_there(known: dict[str, set[str]]) -> None:
    asked = 0
    for where, text in expressions().items():
        for name in set(_NAME.findall(text)) - FOREIGN:
            asked += 1
            assert name in known or name.removesuffix("_total") in known, f"{where}: {name}"
        for name, labels in re.findall(r"(armory_\w+)\{([^}]*)\}", text):
            own = set(re.findall(r"(\w+) *=", labels)) - {"namespace", "service"}
            if known.get(name):
                assert own <= known[name], f"{where}: {name}{{{labels}}}"
    assert asked > 30


def test_the_dashboard_shows_every_kind_of_refusal() -> None:
    shown = "\n".join(
        text for where, text in expressions().items() if not where.startswith("Armory")
    )
    for kind in ("rate_limited", "quota_refused", "requests_refused"):
        assert f"armory_{kind}_total" in shown


def test_what_is_absent_says_of_which_release() -> None:
    # by the equalities of a plain selector alone; without them the alerts of two releases are one
    found = [
        (where, inside)
        for where, text in expressions().items()
        for inside in re.findall(r"absent\(([^()]*)\)", text)
    ]
    assert found
    for where, inside in found:
        assert re.fullmatch(r"\w+\{[^{}]*\}", inside), where


@pytest.mark.parametrize(
    ("ends", "every_s", "trial_s", "told"),
    [
        ("never", 1, 0, True),
        ("never", 60, 1, True),
        ("never", 1, 120, True),  # it hangs, as long as a call may take
        ("at the first trial", 1, 120, False),
        ("nobody asks", 1, 0, False),
    ],
)
def test_who_goes_on_failing_is_told_of(ends: str, every_s: int, trial_s: int, told: bool) -> None:
    (rule,) = (rule for rule in alerts() if rule["alert"] == "ArmoryUpstreamBreakerOpen")
    over = re.search(r'state="open"\}\[(\d+)m\]', rule["expr"])
    window_s = 60 * int(over[1]) if over else 30  # as old as the latest scrape may be
    pending_s = 60 * int(rule["for"].removesuffix("m"))
    breaker, begun, seen, since = Breaker(), None, -math.inf, None
    for _ in range(5):
        breaker.failed(0)
    for now in range(1_800):
        if begun is None and now % every_s == 0 and ends != "nobody asks" and breaker.admits(now):
            begun = now
        if begun is not None and now - begun >= trial_s:
            begun = None
            breaker.failed(now) if ends == "never" else breaker.succeeded()
        if now % 30 == 0 and breaker.state(now) == "open":  # a scrape
            seen = now
        since = (now if since is None else since) if now - seen < window_s else None
        if since is not None and now - since >= pending_s:
            assert told
            return
    assert not told


def test_rules_select_this_release_alone(render: Render) -> None:
    objects = render(scenario("replicas"))
    rule: Any = objects["PrometheusRule", "armory"]
    (group,) = rule["spec"]["groups"]
    for one in group["rules"]:
        selectors = re.findall(r"\{([^}]*)\}", one["expr"])
        own = [text for text in selectors if 'service="armory-metrics"' in text]
        assert own, one["alert"]
        assert all('namespace="tools"' in text for text in own)
        assert "SELECTOR" not in json.dumps(one)
        assert one["labels"]["severity"] in ("critical", "warning", "info")
    board = objects["ConfigMap", "armory-dashboard"]
    assert json.loads(board["data"]["armory.json"])["uid"] == "armory"
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_the_documents_tell_what_each_alert_means() -> None:
    text = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    missing = [rule["alert"] for rule in alerts() if f"`{rule['alert']}`" not in text]
    assert missing == []
