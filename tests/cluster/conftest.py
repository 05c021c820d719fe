"""A real cluster, reached by kubectl and helm; everything in namespaces of its own."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from armory.testing.servers import PostgresServer, RedisServer

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "armory"
DRIVER = ROOT / "tests" / "replicas" / "driver.py"
RATE = os.environ.get("ARMORY_TEST_RATE", "60")
RESTARTS = int(os.environ.get("ARMORY_TEST_RESTARTS", "1"))
TOKEN = '{{index .data "ARMORY_TOKEN" | base64decode}}'
NOTES: dict[str, Any] = {"notes": {"command": "python", "args": ["-m", "armory.demo"]}}
PLAIN: dict[str, Any] = {
    "plain": {"command": "python", "args": ["-m", "armory.testing.upstreams.stdio"]}
}
"""Costs next to nothing a call, so that a small machine's processors are the gateways'."""
RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

Json = dict[str, Any]


class Failed(Exception):
    """A command that did not end with 0; says what it printed."""


class Cluster:
    """kubectl and helm in one namespace.

    Attributes:
        namespace: where everything is.
        image: repository and tag that the cluster has.
    """

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self.namespace = namespace
        self.env = {**os.environ, "KUBECONFIG": kubeconfig}
        repository, _, tag = os.environ.get("ARMORY_TEST_IMAGE", "armory:0.1.0").rpartition(":")
        self.image = {"repository": repository, "tag": tag}

    def run(self, *command: str, input: str | None = None, within_s: float = 300.0) -> str:
        """A command's standard output.

        Raises:
            Failed: it did not end with 0.
        """
        done = subprocess.run(
            command, input=input, env=self.env, capture_output=True, text=True, check=False,
            timeout=within_s,
        )  # fmt: skip
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """kubectl in the namespace."""
        return self.run("kubectl", "-n", self.namespace, *arguments, input=input)

    def get(self, kind: str, name: str = "", **labels: str) -> Any:
        """An object, or the objects with these labels."""
        if name:
            return json.loads(self.kubectl("get", kind, name, "-o", "json"))
        chosen = ",".join(f"{key}={value}" for key, value in labels.items())
        return json.loads(self.kubectl("get", kind, "-l", chosen, "-o", "json"))["items"]

    def helm(self, command: str, release: str, *arguments: str, values: Json | None = None) -> str:
        """helm in the namespace; `install` and `upgrade` of the chart in this tree."""
        given = ["helm", command, release, "-n", self.namespace]
        text: str | None = None
        if command in ("install", "upgrade"):
            given += [str(CHART), "-f", "-"]
            text = yaml.safe_dump({"image": self.image, **(values or {})})
        return self.run(*given, *arguments, input=text)

    def pods(self, release: str = "armory") -> list[Json]:
        """The release's gateways that are not ending."""
        found = self.get(
            "pods", **{"app.kubernetes.io/name": "armory", "app.kubernetes.io/instance": release}
        )
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def ready_pods(self, release: str = "armory") -> list[Json]:
        """Those that are ready."""
        return [
            pod
            for pod in self.pods(release)
            for condition in pod["status"].get("conditions", [])
            if (condition["type"], condition["status"]) == ("Ready", "True")
        ]

    def token(self, release: str = "armory") -> str:
        """The generated token."""
        return self.kubectl("get", "secret", f"{release}-token", "-o", f"go-template={TOKEN}")

    @contextmanager
    def forwarded(self, target: str, port: int = 80) -> Generator[str]:
        """The URL at which a Service or a pod answers here."""
        command = ["kubectl", "-n", self.namespace, "port-forward", target, f":{port}"]
        with subprocess.Popen(
            command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                found = re.search(r"127\.0\.0\.1:(\d+)", line)
                assert found is not None, line or (process.stderr and process.stderr.read())
                yield f"http://127.0.0.1:{found[1]}"
            finally:
                process.terminate()

    def tools(self, release: str = "armory", pod: str = "") -> list[str]:
        """Names of the tools that a client sees, through the Service or one pod."""
        target, port = (f"pod/{pod}", 8080) if pod else (f"service/{release}", 80)
        with self.forwarded(target, port) as url:
            command = [sys.executable, "-m", "armory.cli.main", "tools", "--json"]
            env = {**os.environ, "ARMORY_TOKEN": self.token(release)}
            done = subprocess.run(
                [*command, "--url", f"{url}/mcp"],
                env=env, capture_output=True, text=True, check=False, timeout=120,
            )  # fmt: skip
        if done.returncode != 0:
            raise Failed(done.stdout + done.stderr)
        listed = json.loads(done.stdout)
        entries = listed["tools"] if isinstance(listed, dict) else listed
        return [entry["name"] for entry in entries]


def until(done: Callable[[], Any], what: str, within_s: float = 120.0) -> Any:
    """Wait until `done()` is true; gives what it said.

    Raises:
        TimeoutError: it did not become so in time.
    """
    end = time.monotonic() + within_s
    while not (found := done()):
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.3)
    return found


@pytest.fixture(scope="session")
def kubeconfig() -> str:
    found = os.environ.get("ARMORY_TEST_KUBECONFIG")
    if not found:
        pytest.skip("ARMORY_TEST_KUBECONFIG is not set")
    return found


@pytest.fixture
def cluster(kubeconfig: str) -> Iterator[Cluster]:
    """A namespace that takes restricted pods alone."""
    made = Cluster(kubeconfig, f"armory-{os.getpid()}-{int(time.time() * 1_000) % 1_000_000}")
    made.run("kubectl", "create", "namespace", made.namespace)
    enforced = "pod-security.kubernetes.io/enforce=restricted"
    made.run("kubectl", "label", "namespace", made.namespace, enforced)
    yield made
    made.run("kubectl", "delete", "namespace", made.namespace, "--wait=false")


@pytest.fixture(scope="session")
def databases(kubeconfig: str) -> Iterator[tuple[RedisServer, PostgresServer]]:
    """Redis and Postgres, reachable from pods."""
    server = yaml.safe_load(Path(kubeconfig).read_text())["clusters"][0]["cluster"]["server"]
    own = os.environ.get("ARMORY_TEST_HOST")
    if not own:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((urlsplit(server).hostname, 9))
            own = str(probe.getsockname()[0])
    redis = RedisServer(own)
    try:
        postgres = PostgresServer(own)
        try:
            yield redis, postgres
        finally:
            postgres.remove()
    finally:
        redis.kill()


def several(cluster: Cluster, servers: Any, replicas: int, **more: Any) -> Json:
    """Values of so many replicas, with their Secret made."""
    redis, postgres = servers
    cluster.kubectl(
        "create", "secret", "generic", "armory-databases",
        f"--from-literal=postgres={postgres.create_database()}",
        f"--from-literal=redis={redis.url}",
    )  # fmt: skip
    return {
        "replicas": replicas,
        "postgres": {"existingSecret": "armory-databases", "key": "postgres"},
        "redis": {"existingSecret": "armory-databases", "key": "redis"},
        "config": {"accounts": {"enabled": True}, "upstreams": PLAIN},
        "resources": {"requests": {"cpu": "300m", "memory": "200Mi"}, "limits": {"memory": "1Gi"}},
        **more,
    }


class Load:
    """Calls from inside the cluster, through the Service, while the context lasts.

    Attributes:
        told: what became of them, afterwards.
    """

    def __init__(self, cluster: Cluster, arguments: Sequence[str]) -> None:
        self.told: Json = {}
        self._cluster = cluster
        self._arguments = arguments

    def __enter__(self) -> Load:
        cluster = self._cluster
        cluster.kubectl("create", "configmap", "driver", f"--from-file={DRIVER}")
        source = {"secretKeyRef": {"name": "armory-token", "key": "ARMORY_TOKEN"}}
        command = "exec python /driver/driver.py --url http://$ARMORY_SERVICE_HOST/mcp"
        command += " --tool plain__echo --stop /tmp/stop " + " ".join(self._arguments)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "driver"},
            "spec": {
                "restartPolicy": "Never",
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 10_001,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "driver",
                        "image": f"{cluster.image['repository']}:{cluster.image['tag']}",
                        "command": ["sh", "-c", command],
                        "env": [{"name": "ARMORY_TOKEN", "valueFrom": source}],
                        # the load must not be what waits for the processor
                        "resources": {"requests": {"cpu": "400m"}},
                        "securityContext": RESTRICTED,
                        "volumeMounts": [
                            {"name": "driver", "mountPath": "/driver"},
                            {"name": "tmp", "mountPath": "/tmp"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "driver", "configMap": {"name": "driver"}},
                    {"name": "tmp", "emptyDir": {}},
                ],
            },
        }
        cluster.kubectl("apply", "-f", "-", input=json.dumps(pod))
        cluster.kubectl("wait", "--for=condition=Ready", "pod/driver", "--timeout=60s")
        return self

    def __exit__(self, *_: object) -> None:
        cluster = self._cluster
        cluster.kubectl("exec", "driver", "--", "touch", "/tmp/stop")
        until(self._ended, "the driver does not end")
        said = cluster.kubectl("logs", "driver").strip()
        cluster.kubectl("delete", "pod/driver", "configmap/driver", "--now")
        self.told = json.loads(said.splitlines()[-1])
        if place := os.environ.get("ARMORY_TEST_FIGURES"):
            with Path(place).open("a", encoding="utf-8") as file:
                told = {"test": os.environ["PYTEST_CURRENT_TEST"], **self.told}
                file.write(json.dumps(told) + "\n")

    def _ended(self) -> bool:
        return self._cluster.get("pod", "driver")["status"]["phase"] in ("Succeeded", "Failed")


@pytest.fixture
def load(cluster: Cluster) -> Callable[..., Load]:
    """Steady calls, modern and in legacy sessions."""
    return lambda *arguments: Load(cluster, ["--rate", RATE, *arguments])
