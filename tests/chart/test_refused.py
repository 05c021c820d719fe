"""Values that cannot work are refused by name, before anything is installed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.conftest import Render
from tests.chart.test_values import REDIS_AND_POSTGRES

REFUSED = {
    "replicaCount": ({"replicaCount": 3}, "replicaCount"),
    "image.digset": ({"image": {"digset": "x"}}, "digset"),
    "image.digest": ({"image": {"digest": "latest"}}, "image/digest"),
    "a secret that is a number": ({"existingSecret": 12345}, "existingSecret.*want string"),
    "an annotation that is a boolean": ({"podAnnotations": {"a": True}}, "podAnnotations/a"),
    "a variable that is a number": ({"extraEnv": [{"name": "A", "value": 1}]}, "extraEnv/0/value"),
    "a key of armory.yaml": ({"config": {"server": {"prot": 1}}}, "config/server.*prot"),
    "a value of armory.yaml": (
        {"config": {"tool_rag": {"ranker": "no"}}},
        "config/tool_rag/ranker",
    ),
    "a base path without a slash": ({"config": {"server": {"base_path": "tools"}}}, "base_path"),
    "a block that is null": ({"config": {"server": None}}, "config/server.*want object"),
    "a block of the chart that is null": ({"metrics": None}, "missing propert.*metrics"),
    "a block in a block that is null": (
        {"networkPolicy": {"egress": None}},
        "networkPolicy.*missing propert.*egress",
    ),
    "a number that is null": ({"replicas": None}, "missing propert.*replicas"),
    "an upstream's name": (
        {"config": {"upstreams": {"google_docs": {"url": "http://docs/mcp"}}}},
        "propertyName.*google_docs",
    ),
    "a limit of resources": ({"resources": {"limit": {"memory": "1Gi"}}}, "resources.*limit"),
    "a size that is no quantity": ({"persistence": {"size": "1GB"}}, "persistence/size"),
    "a limit that is no quantity": (
        {"resources": {"limits": {"memory": "1 Gi"}}},
        "resources/limits/memory",
    ),
    "a part of the security context": (
        {"securityContext": {"readOnlyRootFs": True}},
        "securityContext.*readOnlyRootFs",
    ),
    "a part of the pods' security context": (
        {"podSecurityContext": {"capabilities": {"drop": ["ALL"]}}},
        "podSecurityContext.*capabilities",
    ),
    "a Secret of TLS": ({"ingress": {"tls": [{"secretname": "x"}]}}, "ingress/tls/0.*secretname"),
    "a part of the strategy": (
        {"strategy": {"rollingUpdate": {"maxsurge": 1}}},
        "strategy/rollingUpdate.*maxsurge",
    ),
    "a selector of who may connect": (
        {"networkPolicy": {"ingressFrom": [{"namespaceSelector": {"matchLabel": {"a": "b"}}}]}},
        "networkPolicy/ingressFrom/0/namespaceSelector.*matchLabel",
    ),
    "a selector of who may read the metrics": (
        {"networkPolicy": {"metricsFrom": [{"podSelector": {"matchlabels": {"a": "b"}}}]}},
        "networkPolicy/metricsFrom/0/podSelector.*matchlabels",
    ),
    "a rule of what is reached": (
        {"networkPolicy": {"egress": {"to": [{"tos": [], "ports": [{"port": 443}]}]}}},
        "networkPolicy/egress/to/0.*tos",
    ),
    "a port of what is reached": (
        {"networkPolicy": {"egress": {"to": [{"ports": [{"prot": 443}]}]}}},
        "networkPolicy/egress/to/0/ports/0.*prot",
    ),
    "a grace period of readiness": (
        {"readinessProbe": {"terminationGracePeriodSeconds": 5}},
        "readinessProbe.*terminationGracePeriodSeconds",
    ),
    "two successes of liveness": (
        {"livenessProbe": {"successThreshold": 2}},
        "livenessProbe/successThreshold",
    ),
    "an interval without a unit": (
        {"metrics": {"serviceMonitor": {"interval": "30"}}},
        "serviceMonitor/interval",
    ),
    "an ingress without hosts": ({"ingress": {"enabled": True}}, "ingress.hosts"),
    "a route without parents": ({"httpRoute": {"enabled": True}}, "httpRoute.parentRefs"),
    "replicas without Redis": (
        {"replicas": 2, "postgres": {"existingSecret": "dbs"}},
        "needs Redis.*redis.existingSecret",
    ),
    "replicas without Postgres": (
        {"autoscaling": {"enabled": True}, "redis": {"existingSecret": "dbs"}},
        "needs Postgres.*postgres.existingSecret",
    ),
    "replicas on SQLite": (
        {"replicas": 2, "config": {"storage": {"url": "sqlite:///a.db", "redis": "redis://r"}}},
        "needs Postgres",
    ),
    "replicas on SQLite unless a variable says otherwise": (
        {
            "replicas": 2,
            "config": {"storage": {"url": "${DB:-sqlite:///a.db}", "redis": "redis://r"}},
            "extraEnv": [{"name": "OTHER", "value": "postgresql://db/a"}],
        },
        "needs Postgres.*the variable there gets no such value",
    ),
    "replicas on SQLite by a variable": (
        {
            "replicas": 2,
            "config": {"storage": {"url": "${DB:-postgresql://db/a}", "redis": "redis://r"}},
            "extraEnv": [{"name": "DB", "value": "sqlite:////data/a.db"}],
        },
        "needs Postgres",
    ),
    "replicas without Redis unless a variable says otherwise": (
        {
            "replicas": 2,
            "config": {"storage": {"url": "postgresql://db/a", "redis": "${env:REDIS:-}"}},
        },
        "needs Redis.*the variable there gets no such value",
    ),
    "replicas on one volume": (
        {"replicas": 2, "persistence": {"enabled": True}, **REDIS_AND_POSTGRES},
        "persistence",
    ),
    "a port that the Service cannot know": (
        {"config": {"server": {"port": "${PORT}"}}},
        r"server.port is \$\{PORT\}",
    ),
    "a drain time that the grace period cannot know": (
        {"config": {"server": {"drain_timeout_s": "${LONG}"}}},
        "terminationGracePeriodSeconds",
    ),
    "a grace period that ends before calls do": (
        {"terminationGracePeriodSeconds": 34},
        r"terminationGracePeriodSeconds is 34, and calls in flight have 35 s",
    ),
    "a gateway that nobody may use": ({"token": {"enabled": False}}, "token.enabled is false"),
    "a name that no Service can have": ({"fullnameOverride": "2nd"}, "set fullnameOverride"),
    "labels that pods are found by": (
        {"podLabels": {"app.kubernetes.io/name": "x"}},
        "podLabels.app.kubernetes.io/name",
    ),
    "more replicas at least than at most": (
        {"autoscaling": {"enabled": True, "maxReplicas": 1}, **REDIS_AND_POSTGRES},
        "autoscaling.maxReplicas is 1",
    ),
    "autoscaling without what it goes by": (
        {
            "autoscaling": {"enabled": True},
            "resources": {"requests": {"cpu": None}},
            **REDIS_AND_POSTGRES,
        },
        "targetCPU is a part of resources.requests.cpu",
    ),
    "autoscaling without resources": (
        {"autoscaling": {"enabled": True}, "resources": None, **REDIS_AND_POSTGRES},
        "targetCPU is a part of resources.requests.cpu",
    ),
    "an address that nobody else reaches": (
        {"config": {"server": {"host": "127.0.0.1"}}},
        "server.host is 127.0.0.1",
    ),
    "metrics at the port of clients": ({"metrics": {"port": 8080}}, "8080 is config.server.port"),
    "a monitor without metrics": (
        {"metrics": {"serviceMonitor": {"enabled": True}, "enabled": False}},
        "no metrics to go by",
    ),
    "a monitor without the token": (
        {
            "metrics": {"serviceMonitor": {"enabled": True}},
            "config": {"server": {"metrics": {"token": "${T}"}}},
        },
        "serviceMonitor.authorization",
    ),
    "a port of the metrics that is none": (
        {"config": {"server": {"metrics": {"port": None}}}},
        "metrics.port is .*nil.*the Service of the metrics has to know it",
    ),
    "a variable of the chart's": (
        {"extraEnv": [{"name": "ARMORY_HOME", "value": "/data"}]},
        "extraEnv has ARMORY_HOME, which the chart sets already",
    ),
    "a variable that a Secret of the chart's has": (
        {
            "redis": {"existingSecret": "dbs"},
            "extraEnv": [{"name": "ARMORY_REDIS_URL", "value": "redis://r"}],
        },
        "extraEnv has ARMORY_REDIS_URL",
    ),
    "a token beside that of a Secret": (
        {
            "token": {"existingSecret": "team"},
            "extraEnv": [{"name": "ARMORY_TOKEN", "value": "a-token"}],
        },
        "extraEnv has ARMORY_TOKEN",
    ),
    "a variable twice": (
        {"extraEnv": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
        "extraEnv has A, .* there twice",
    ),
    "any free port": (
        {"config": {"server": {"port": 0}}},
        "server.port is 0; the Service has to know it: write a number from 1",
    ),
    "any free port of the metrics": (
        {"config": {"server": {"metrics": {"port": 0}}}},
        "server.metrics.port is 0, and the Service of the metrics has to know it",
    ),
}


GIVEN: dict[str, dict[str, Any]] = {
    "by extraEnv": {"extraEnv": [{"name": "DB", "value": "postgresql://db/a"}]},
    "from a Secret": {
        "extraEnv": [{"name": "DB", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    },
    "by all of a Secret": {"existingSecret": "dbs"},
    "by extraEnvFrom": {"extraEnvFrom": [{"secretRef": {"name": "dbs"}}]},
}


@pytest.mark.parametrize("how", GIVEN)
def test_replicas_whose_variable_may_say_postgres_are_not_refused(render: Render, how: str) -> None:
    storage = {"url": "${DB:-sqlite:///a.db}", "redis": "redis://r"}
    assert render({"replicas": 2, "config": {"storage": storage}, **GIVEN[how]})


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_work_is_refused_by_name(render: Render, what: str) -> None:
    values, named = REFUSED[what]
    with pytest.raises(Exception, match=f"(?s){named}"):
        render(values)
