"""Writes `armory/values.schema.json`: what the chart takes, the schema of armory.yaml included.

Owns: the schema of values.yaml. `config` is checked by the project's own schema, so that a typo in
it is refused by `helm install` as `armory validate` would refuse it.

    python deploy/helm/schema.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from armory.config.schema import config_schema

FILE = Path(__file__).parent / "armory" / "values.schema.json"
Schema = dict[str, Any]


def block(about: str = "", /, **properties: Schema) -> Schema:
    """An object with these keys and no others."""
    found: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**found, "description": about} if about else found


def text(about: str = "", **more: Any) -> Schema:
    """A text."""
    return {"type": "string", **({"description": about} if about else {}), **more}


def whole(least: int = 0, most: int | None = None, about: str = "") -> Schema:
    """A whole number."""
    found: Schema = {"type": "integer", "minimum": least}
    if most is not None:
        found["maximum"] = most
    return {**found, "description": about} if about else found


def choice(*values: Any, about: str = "") -> Schema:
    """One of these."""
    return {"enum": list(values), **({"description": about} if about else {})}


def listed(inner: Schema | None = None, about: str = "", **more: Any) -> Schema:
    """A list."""
    found: Schema = {"type": "array", **({"items": inner} if inner else {}), **more}
    return {**found, "description": about} if about else found


def kubernetes(about: str = "") -> Schema:
    """An object that Kubernetes itself describes."""
    return {"type": "object", **({"description": about} if about else {})}


def known(*keys: str) -> Schema:
    """An object that Kubernetes itself describes, with these keys alone. What the chart sets
    of them may be taken out by `null`.
    """
    return block(**{key: {} for key in keys})


FLAG: Schema = {"type": "boolean"}
AUTO = choice("auto", True, False)
PORT = whole(1, 65_535)
REACHED = block(
    port={"anyOf": [PORT, text(minLength=1)]}, protocol=choice("TCP", "UDP", "SCTP"), endPort=PORT
)
"""A port of what is reached, or its name."""
SHARE: Schema = {"anyOf": [whole(), text(pattern="^[0-9]+%$")]}
"""So many pods, or so many of a hundred."""
NAMES: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
"""Labels, annotations and the like: texts alone; a number or a boolean has to be quoted."""
_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
QUANTITY: Schema = {
    "anyOf": [
        text(pattern=f"^[+-]?{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{_NUMBER})?$"),
        {"type": "number"},
    ]
}
"""As Kubernetes takes it: 1Gi, 500m, 2e9; no 1GB."""
QUANTITIES: Schema = {"type": "object", "additionalProperties": QUANTITY}
RESOURCES = block(
    "Kubernetes only warns of a key that it does not know.",
    requests=QUANTITIES,
    limits=QUANTITIES,
    claims=listed({"type": "object"}),
)
OBJECTS = listed({"type": "object"})
SELECTOR = block(
    "Without the key that has a typo it would select everything.",
    matchLabels=NAMES,
    matchExpressions=listed(
        {
            **block(
                key=text(minLength=1),
                operator=choice("In", "NotIn", "Exists", "DoesNotExist"),
                values=listed(text()),
            ),
            "required": ["key", "operator"],
        }
    ),
)
PEERS = listed(
    {
        **block(
            podSelector=SELECTOR,
            namespaceSelector=SELECTOR,
            ipBlock={
                **block(cidr=text(minLength=1), **{"except": listed(text(minLength=1))}),
                "required": ["cidr"],
            },
        ),
        "minProperties": 1,
    }
)
"""Of a NetworkPolicy: whom it lets through."""
ENV = listed(
    {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {"name": text(minLength=1), "value": text(), "valueFrom": kubernetes()},
    }
)
SECRET_KEY = block("", existingSecret=text(), key=text(minLength=1))
_SECURITY = (
    *("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile", "appArmorProfile"),
    *("seLinuxOptions", "windowsOptions"),
)
POD_SECURITY = known(
    *(*_SECURITY, "fsGroup", "fsGroupChangePolicy", "supplementalGroups"),
    *("supplementalGroupsPolicy", "seLinuxChangePolicy", "sysctls"),
)
CONTAINER_SECURITY = known(
    *(*_SECURITY, "allowPrivilegeEscalation", "capabilities", "privileged", "procMount"),
    "readOnlyRootFilesystem",
)
"""Of these Kubernetes only warns of a key that it does not know."""
DURATION = text(
    pattern="^([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$", minLength=2
)
"""As Prometheus writes it."""


def probe(**more: Schema) -> Schema:
    """How a probe is made."""
    return block(
        "The request itself is the chart's.",
        initialDelaySeconds=whole(),
        periodSeconds=whole(1),
        timeoutSeconds=whole(1),
        failureThreshold=whole(1),
        **more,
    )


ENDS = probe(successThreshold=whole(1, 1), terminationGracePeriodSeconds=whole(1))
"""A probe whose failure ends the container; Kubernetes takes no other threshold."""


def _workload() -> Schema:
    """Keys about the pods."""
    return {
        "resources": {"anyOf": [RESOURCES, {"type": "null"}]},
        "autoscaling": block(
            enabled=FLAG,
            minReplicas=whole(1),
            maxReplicas=whole(1),
            targetCPU=whole(1),
            behavior=kubernetes(),
        ),
        "podDisruptionBudget": block(enabled=AUTO, maxUnavailable=SHARE),
        "strategy": block(
            type=choice("RollingUpdate", "Recreate"),
            rollingUpdate=block(maxSurge=SHARE, maxUnavailable=SHARE),
        ),
        "terminationGracePeriodSeconds": {"anyOf": [whole(1), {"type": "null"}]},
        "serviceAccount": block(create=FLAG, name=text(), annotations=NAMES, automountToken=FLAG),
        "initContainers": OBJECTS,
        "sidecars": OBJECTS,
        "extraVolumes": OBJECTS,
        "extraVolumeMounts": OBJECTS,
        "extraObjects": OBJECTS,
        "podLabels": NAMES,
        "podAnnotations": NAMES,
        "podSecurityContext": POD_SECURITY,
        "securityContext": CONTAINER_SECURITY,
        "startupProbe": ENDS,
        "livenessProbe": ENDS,
        "readinessProbe": probe(successThreshold=whole(1)),
        "nodeSelector": NAMES,
        "tolerations": OBJECTS,
        "affinity": kubernetes(),
        "topologySpreadConstraints": OBJECTS,
        "priorityClassName": text(),
        "runtimeClassName": text(),
        "hostAliases": OBJECTS,
    }


def _network() -> Schema:
    """Keys about how it is reached and what it reaches."""
    return {
        "service": block(
            type=choice("ClusterIP", "NodePort", "LoadBalancer"),
            port=PORT,
            annotations=NAMES,
            ipFamilyPolicy=choice("", "SingleStack", "PreferDualStack", "RequireDualStack"),
        ),
        "ingress": block(
            enabled=FLAG,
            className=text(),
            hosts=listed(text(minLength=1)),
            tls=listed(block(secretName=text(), hosts=listed(text(minLength=1)))),
            annotations=NAMES,
        ),
        "httpRoute": block(
            enabled=FLAG, parentRefs=OBJECTS, hostnames=listed(text(minLength=1)), annotations=NAMES
        ),
        "networkPolicy": block(
            enabled=FLAG,
            ingressFrom=PEERS,
            metricsFrom=PEERS,
            egress=block(restricted=FLAG, to=listed(block(to=PEERS, ports=listed(REACHED)))),
        ),
        "metrics": block(
            enabled=FLAG,
            port=PORT,
            serviceMonitor=block(
                enabled=FLAG,
                interval=DURATION,
                labels=NAMES,
                authorization=kubernetes(),
            ),
            prometheusRule=block(enabled=FLAG, labels=NAMES, extraRules=OBJECTS),
            dashboard=block(enabled=FLAG, labels=NAMES, annotations=NAMES),
        ),
    }


def _require(schema: Schema, defaults: dict[str, Any]) -> None:
    """Require what templates cannot do without: `null` takes a default away.

    That is every block and every single value whose default says something; lists, and objects
    that Kubernetes describes, may be taken away.
    """
    required: list[str] = []
    for name, inner in schema["properties"].items():
        default = defaults.get(name)
        if "properties" in inner and default:
            if any(inner["properties"].values()):  # else they are Kubernetes'
                _require(inner, default)
            required.append(name)
        elif default and not isinstance(default, dict | list):
            required.append(name)
    if required:
        schema["required"] = required


def values_schema() -> Schema:
    """The schema as a JSON object. Draft 7, which every Helm 3 and 4 reads."""
    armory = config_schema()
    definitions: Schema = armory.pop("$defs")
    for name in ("$schema", "title"):
        armory.pop(name)
    armory["type"] = ["object", "null"]
    definitions["Armory"] = armory
    top = block(
        nameOverride=text(),
        fullnameOverride=text(),
        image=block(
            repository=text(minLength=1),
            tag=text("The version; the chart's appVersion where it is empty."),
            digest=text(pattern="^(sha256:[0-9a-f]{64})?$"),
            pullPolicy=choice("Always", "IfNotPresent", "Never"),
        ),
        imagePullSecrets=listed({**block(name=text(minLength=1)), "required": ["name"]}),
        replicas=whole(0),
        config={"$ref": "#/$defs/Armory"},
        configReload=choice("restart", "live"),
        token=block(
            enabled=AUTO, existingSecret=text(), key=text(minLength=1), scopes=listed(text())
        ),
        existingSecret=text("A Secret whose keys become environment variables."),
        extraEnv=ENV,
        extraEnvFrom=OBJECTS,
        postgres=SECRET_KEY,
        redis=SECRET_KEY,
        persistence=block(
            enabled=FLAG,
            existingClaim=text(),
            size=QUANTITY,
            storageClass=text(),
            accessModes=listed(
                choice("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"), minItems=1
            ),
            annotations=NAMES,
        ),
        **_network(),
        **_workload(),
    )
    _require(top, yaml.safe_load((FILE.parent / "values.yaml").read_text(encoding="utf-8")))
    top["properties"]["global"] = {"type": "object", "description": "Helm's own; not used."}
    top["properties"]["enabled"] = {"type": "boolean", "description": "For charts around this one."}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the Armory chart",
        **top,
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as it is written to the file."""
    return json.dumps(values_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
    sys.stdout.write(f"{FILE}\n")
