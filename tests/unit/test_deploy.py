"""What stands in deploy/ beside the chart fits itself and the gateway; none of it needs Docker."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from armory.config import load_text
from armory.runtime.entry.local_access import Note
from armory.runtime.settings import problems_of
from tests.image.dockerfile import Copy, stages
from tests.threaded import Answering, in_thread

DEPLOY = Path(__file__).parents[2] / "deploy"
SECRETS = {"ARMORY_TOKEN": "a-long-random-text", "POSTGRES_PASSWORD": "p@ss/word"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_compose_mounts_a_folder_whose_configuration_holds_and_gives_it_what_it_reads() -> None:
    compose = read(DEPLOY / "compose.yaml")
    armory = compose["services"]["armory"]
    assert (DEPLOY / armory["build"]["context"] / armory["build"]["dockerfile"]).is_file()
    mounted, _, target = armory["volumes"][0].partition(":")
    assert target == "/etc/armory:ro"  # a file that an editor replaces would never be seen
    assert set(armory["environment"]) == set(SECRETS)
    # and what else somebody's servers refer to, from the file that the page tells of
    assert armory["env_file"] == [{"path": ".env", "required": False}]
    loaded = load_text((DEPLOY / mounted / "armory.yaml").read_text(), environ=SECRETS)
    assert problems_of(loaded) == []
    storage = loaded.config.storage
    assert storage.url == "postgresql://armory:p%40ss%2Fword@postgres/armory"
    assert storage.redis is not None
    assert "//redis:" in storage.redis
    assert set(armory["depends_on"]) == {"redis", "postgres"} <= set(compose["services"])
    named = {
        volume.split(":")[0]
        for s in compose["services"].values()
        for volume in s.get("volumes", [])
    }
    assert named - {mounted} == set(compose["volumes"])
    server = loaded.config.server
    grace = int(armory["stop_grace_period"].removesuffix("s"))
    assert grace > server.drain_timeout_s + server.drain_delay_s


def test_compose_calls_its_volumes_by_a_name_that_no_other_project_has() -> None:
    """Without one it is that of the folder, and many projects have a `deploy`."""
    assert read(DEPLOY / "compose.yaml").get("name") == "armory"


def test_the_image_is_built_from_files_that_are_sent_to_it() -> None:
    sent = (DEPLOY / "Dockerfile.dockerignore").read_text()
    copied = [
        name
        for stage in stages(DEPLOY / "Dockerfile").values()
        for step in stage.steps
        if isinstance(step, Copy) and step.stage is None
        for name in step.sources
    ]
    assert len(copied) > 4
    for name in copied:
        assert (DEPLOY.parent / name).exists()
        assert f"!{name}\n" in sent, name


def test_what_is_taken_from_another_image_comes_with_its_licence() -> None:
    full = [step for step in stages(DEPLOY / "Dockerfile")["full"].steps if isinstance(step, Copy)]
    taken = {name for step in full if step.stage == "node" for name in step.sources}
    assert "/usr/local/bin/node" in taken
    assert "/usr/local/LICENSE" in taken  # npm's is in its folder


def test_both_images_run_unprivileged_under_an_init_and_bases_are_pinned() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    found = stages(DEPLOY / "Dockerfile")
    assert list(found)[-1] == "armory"  # what `docker build` without a target makes
    for name in ("armory", "full"):
        config = found[name].config
        assert config["User"] == "10001:10001"
        assert config["Entrypoint"] == ["tini", "--", "armory"]
        assert config["Healthcheck"][-1].endswith("healthcheck.py")
        assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    bases = [line for line in re.findall(r"^FROM (\S+) AS", text, re.MULTILINE) if ":" in line]
    assert len(bases) == 2
    assert all(re.fullmatch(r"[\w.:-]+@sha256:[0-9a-f]{64}", base) for base in bases)
    assert "COPY --from=build /wheels" not in text  # they would stay in a layer


# -- the image's health check --------------------------------------------------------------------


@pytest.fixture
def healthcheck() -> Any:
    spec = importlib.util.spec_from_file_location("healthcheck", DEPLOY / "healthcheck.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES: dict[str, tuple[str, str, dict[str, str], str]] = {
    "defaults": ("", "", {}, "http://127.0.0.1:8080/healthz"),
    "everywhere": ("server: {host: '::', port: 9000}", "", {}, "http://127.0.0.1:9000/healthz"),
    "one address": ("server: {host: 'fd00::1'}", "", {}, "http://[fd00::1]:8080/healthz"),
    "a path": ("server: {base_path: /tools/}", "", {}, "http://127.0.0.1:8080/tools/healthz"),
    "variables": (
        "server: {port: '${P}', base_path: '${B:-/x}'}",
        "",
        {"P": "81"},
        "http://127.0.0.1:81/x/healthz",
    ),
    "arguments": (
        "server: {port: 1}",
        "tini -- armory serve --host 0.0.0.0 --port=82",
        {},
        "http://127.0.0.1:82/healthz",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_health_check_finds_port_and_path(healthcheck: Any, tmp_path: Path, case: str) -> None:
    text, arguments, environ, expected = CASES[case]
    file = tmp_path / "armory.yaml"
    file.write_text(text)
    environ = {**environ, "ARMORY_CONFIG": str(file)}
    assert healthcheck.url(arguments.split(), environ) == expected


@pytest.fixture
def answering() -> Iterator[int]:
    """Port of a server that is well at `/tools/healthz` alone."""

    class Handler(Answering):
        def do_GET(self) -> None:
            self.say(status=200 if self.path == "/tools/healthz" else 404)

    with in_thread(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield server.server_port


@pytest.mark.parametrize(("path", "code"), [("/tools", 0), ("/other", 1)])
def test_the_health_check_ends_with_what_the_gateway_says(
    healthcheck: Any,
    answering: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    code: int,
) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text(f"server: {{port: {answering}, base_path: {path}}}")
    monkeypatch.setenv("ARMORY_CONFIG", str(file))
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # for upstreams; nobody is there
    assert healthcheck.main() == code


@pytest.mark.parametrize("changed", ["server: {port: 1, base_path: /new}", "server: [", ""])
def test_a_gateway_is_well_while_its_file_says_otherwise(
    healthcheck: Any,
    answering: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: str,
) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text(changed)
    monkeypatch.setenv("ARMORY_CONFIG", str(file))
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path))
    note = Note(tmp_path, f"http://127.0.0.1:{answering}/tools", "a-token")
    note.leave()
    assert healthcheck.main() == 0
    note.remove()
