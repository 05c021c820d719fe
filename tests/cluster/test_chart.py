"""The chart on a real cluster: installed, changed, broken, rolled back, removed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.chart.conftest import SCENARIOS, scenario
from tests.cluster.conftest import CHART, NOTES, PLAIN, Cluster, Failed, Load, until

pytestmark = pytest.mark.timeout(900)
SHORT = ("--wait", "--timeout", "25s")
WAIT = ("--wait", "--timeout", "120s")


def upstreams(cluster: Cluster) -> set[str]:
    """Servers whose tools clients see."""
    return {name.partition("__")[0] for name in cluster.tools() if "__" in name}


def test_without_values_it_serves_restricted_and_its_token_stays(cluster: Cluster) -> None:
    said = cluster.helm("install", "armory", *WAIT)
    assert "armory-token" in said
    cluster.helm("test", "armory")
    token = cluster.token()
    assert len(token) >= 32
    assert cluster.tools() == []
    cluster.helm("upgrade", "armory", *WAIT, values={"config": {"upstreams": NOTES}})
    assert cluster.token() == token
    assert upstreams(cluster) == {"notes"}
    cluster.helm("test", "armory")


def logged(cluster: Cluster) -> str:
    """What the containers that have begun say."""
    pods = cluster.pods()
    said: list[str] = []
    for name in [pod["metadata"]["name"] for pod in pods]:
        with contextlib.suppress(Failed):  # one that waits to begin has no log yet
            said.append(cluster.kubectl("logs", name, "--tail=20"))
    return "\n".join(said)


def test_a_failed_upgrade_changes_nothing(cluster: Cluster) -> None:
    good = {"config": {"upstreams": NOTES}}
    cluster.helm("install", "armory", *WAIT, values=good)
    (old,) = cluster.ready_pods()
    name = old["metadata"]["name"]

    other = {"image": {**cluster.image, "tag": "no-such"}, "config": {"upstreams": {}}}
    with pytest.raises(Failed):
        cluster.helm("upgrade", "armory", *SHORT, values=other)
    assert upstreams(cluster) == {"notes"}
    # restarted and even replaced, the old pod has what it had
    cluster.kubectl("exec", name, "--", "sh", "-c", "kill 1")
    until(
        lambda: cluster.get("pod", name)["status"]["containerStatuses"][0]["restartCount"],
        "the container does not restart",
    )
    until(lambda: cluster.ready_pods(), "the old pod does not come back")
    assert upstreams(cluster) == {"notes"}
    cluster.kubectl("delete", "pod", name)
    until(lambda: cluster.ready_pods(), "the old pod is not replaced")
    assert upstreams(cluster) == {"notes"}

    bad = {"config": {"upstreams": NOTES, "sets": {"ops": {"servers": ["nope"]}}}}
    with pytest.raises(Failed):
        cluster.helm("upgrade", "armory", *SHORT, values=bad)
    wrong = "no upstream is called 'nope'"
    until(lambda: wrong in logged(cluster), "no pod names the mistake")
    until(lambda: wrong in cluster.kubectl("describe", "pods"), "kubectl describe does not name it")
    assert upstreams(cluster) == {"notes"}
    with pytest.raises(Failed, match="replicaCount"):
        cluster.helm("upgrade", "armory", values={"replicaCount": 3})

    began = time.monotonic()
    cluster.helm("rollback", "armory", "1", *WAIT)
    assert time.monotonic() - began < 60
    assert upstreams(cluster) == {"notes"}
    until(lambda: len(cluster.pods()) == 1, "the failed pods stay")
    cluster.helm("upgrade", "armory", *WAIT, values={"config": {"upstreams": {}}})
    assert upstreams(cluster) == set()


def exec_armory(cluster: Cluster, *arguments: str) -> str:
    return cluster.kubectl("exec", "deploy/armory", "-c", "armory", "--", "armory", *arguments)


def test_data_outlives_whatever_happens_to_the_release(cluster: Cluster) -> None:
    values = {"config": {"accounts": {"enabled": True}}}
    cluster.helm("install", "armory", *WAIT, values=values)
    kept = {**values, "persistence": {"enabled": True}}
    cluster.helm("upgrade", "armory", *WAIT, values=kept)
    exec_armory(cluster, "users", "create", "ann")

    def known() -> bool:
        return "ann" in exec_armory(cluster, "users", "list")

    assert known()
    cluster.helm("rollback", "armory", "1", *WAIT)
    assert not known()
    cluster.helm("upgrade", "armory", *WAIT, values=kept)
    assert known()
    cluster.helm("upgrade", "armory", *WAIT, values=values)
    assert not known()
    cluster.helm("uninstall", "armory", "--wait")
    (claim,) = cluster.get("pvc", **{"app.kubernetes.io/instance": "armory"})
    assert claim["metadata"]["name"] == "armory"
    cluster.helm("install", "armory", *WAIT, values=kept)
    assert known()
    cluster.helm("uninstall", "armory", "--wait")
    mine = {**values, "persistence": {"enabled": True, "existingClaim": "armory"}}
    cluster.helm("install", "armory", *WAIT, values=mine)
    assert known()


def test_a_volume_makes_no_change_an_outage(cluster: Cluster, load: Callable[..., Load]) -> None:
    values: dict[str, Any] = {
        "config": {"upstreams": PLAIN, "accounts": {"enabled": True}},
        "persistence": {"enabled": True},
    }
    cluster.helm("install", "armory", *WAIT, values=values)
    with load("--sessions", "0") as running:
        time.sleep(2)
        values["config"]["observability"] = {"log_level": "warning"}
        cluster.helm("upgrade", "armory", *WAIT, values=values)
        until(lambda: len(cluster.pods()) == 1, "two pods stay")
    assert running.told["failed"] == 0, running.told
    assert running.told["modern"] > 100


SLOW = """
import time
from mcp.server.mcpserver import MCPServer
server = MCPServer("slow", version="1")
@server.tool()
def wait(seconds: float) -> str:
    "Waits."
    time.sleep(seconds)
    return "done"
server.run("stdio")
"""


def test_a_call_is_as_long_as_draining_allows(cluster: Cluster) -> None:
    upstream = {"slow": {"command": "python", "args": ["-c", SLOW]}}
    config = {"server": {"drain_timeout_s": 90}, "upstreams": upstream}
    cluster.helm("install", "armory", *WAIT, values={"config": config})
    script = (
        "import subprocess,sys;"
        "sys.exit(subprocess.run(['armory','call','--url','http://127.0.0.1:8080/mcp',"
        "'slow__wait','{\"seconds\": 50}']).returncode)"
    )
    (pod,) = cluster.ready_pods()
    name = pod["metadata"]["name"]
    job = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "caller"},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": pod["spec"]["securityContext"],
            "containers": [
                {
                    "name": "caller",
                    "image": pod["spec"]["containers"][0]["image"],
                    "command": [
                        "python",
                        "-c",
                        script.replace("127.0.0.1", pod["status"]["podIP"]),
                    ],
                    "env": [
                        {"name": "HOME", "value": "/tmp"},
                        {"name": "ARMORY_TOKEN", "value": cluster.token()},
                    ],
                    "securityContext": pod["spec"]["containers"][0]["securityContext"],
                    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                }
            ],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(job))

    def under_way() -> bool:
        with cluster.forwarded(f"pod/{name}", 9090) as url:
            read = f"import urllib.request as u; print(u.urlopen('{url}/metrics').read().decode())"
            text = cluster.run("python3", "-c", read)
        return 'armory_upstream_calls_in_flight{server="slow"} 1.0' in text

    until(under_way, "the call does not arrive")
    began = time.monotonic()
    cluster.kubectl("delete", "pod", name)  # waits until it is gone
    assert time.monotonic() - began > 30
    until(
        lambda: cluster.get("pod", "caller")["status"]["phase"] in ("Succeeded", "Failed"),
        "the call does not end",
    )
    assert cluster.get("pod", "caller")["status"]["phase"] == "Succeeded"
    assert "done" in cluster.kubectl("logs", "caller")


def test_with_every_upstream_down_clients_get_an_error_that_names_it(cluster: Cluster) -> None:
    gone = {"gone": {"url": "http://127.0.0.1:9/mcp"}}
    cluster.helm("install", "armory", *WAIT, values={"config": {"upstreams": gone}})
    assert upstreams(cluster) == set()
    strict = {"config": {"upstreams": gone, "server": {"readiness": "any"}}}
    with pytest.raises(Failed):
        cluster.helm("upgrade", "armory", *SHORT, values=strict)


def test_a_secret_from_a_file_works_and_its_change_replaces_the_pods(cluster: Cluster) -> None:
    def secret(token: str) -> None:
        made = cluster.kubectl(
            "create", "secret", "generic", "armory-token", "--dry-run=client", "-o", "yaml",
            f"--from-literal=ARMORY_TOKEN={token}\n",
        )  # fmt: skip
        cluster.kubectl("apply", "-f", "-", input=made)

    secret("a-first-long-token")
    values = {"existingSecret": "armory-token", "config": {"upstreams": NOTES}}
    cluster.helm("install", "armory", *WAIT, values=values)
    assert upstreams(cluster) == {"notes"}
    (before,) = cluster.ready_pods()
    cluster.helm("upgrade", "armory", *WAIT, values=values)
    (same,) = cluster.ready_pods()
    assert same["metadata"]["name"] == before["metadata"]["name"]
    secret("a-second-long-token")
    cluster.helm("upgrade", "armory", *WAIT, values=values)
    until(lambda: len(cluster.pods()) == 1, "two pods stay")
    assert upstreams(cluster) == {"notes"}


def test_live_reload_replaces_nothing(cluster: Cluster) -> None:
    values: dict[str, Any] = {"configReload": "live", "config": {"upstreams": {}}}
    cluster.helm("install", "armory", *WAIT, values=values)
    (before,) = cluster.ready_pods()
    values["config"]["upstreams"] = NOTES
    cluster.helm("upgrade", "armory", *WAIT, values=values)
    until(lambda: upstreams(cluster) == {"notes"}, "the change does not arrive", 150)
    (after,) = cluster.ready_pods()
    assert after["metadata"]["name"] == before["metadata"]["name"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_cluster_takes_every_scenario(cluster: Cluster, name: str) -> None:
    """The API server says what it refuses; `helm install --dry-run=server` would not show that."""
    values = scenario(name)
    for place in ("serviceMonitor", "prometheusRule"):
        values.setdefault("metrics", {}).setdefault(place, {})["enabled"] = False
    values.setdefault("httpRoute", {})["enabled"] = False
    kube = cluster.run("kubectl", "version", "-o", "yaml")
    version = yaml.safe_load(kube)["serverVersion"]["gitVersion"]
    text = cluster.run(
        "helm", "template", "armory", str(CHART), "-n", cluster.namespace, "-f", "-",
        "--kube-version", version, input=yaml.safe_dump(values),
    )  # fmt: skip
    cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=text)
