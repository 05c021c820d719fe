"""What stands in deploy/ fits itself and the gateway; nothing here needs Docker or Helm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from armory.config import load_text
from armory.runtime.settings import problems_of

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "armory"
TEMPLATES = sorted((CHART / "templates").iterdir())
SECRETS = {"ARMORY_TOKEN": "a-long-random-text", "POSTGRES_PASSWORD": "armory"}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_every_value_that_the_chart_uses_has_a_default_and_is_used() -> None:
    values = read(CHART / "values.yaml")
    text = "".join(path.read_text() for path in TEMPLATES)
    used = {tuple(name.split(".")) for name in re.findall(r"\.Values\.([A-Za-z.]+)", text)}
    for path in used:
        place = values
        for part in path:
            assert part in place, f".Values.{'.'.join(path)} has no default"
            place = place[part]
    given = {(key,) for key in values}
    given |= {("ingress", key) for key in values["ingress"]}
    unused = [path for path in given if not any(name[: len(path)] == path for name in used)]
    assert unused == []


def test_blocks_of_the_templates_are_closed() -> None:
    for path in TEMPLATES:
        actions = re.findall(r"\{\{-?\s*(if|with|range|define|end)\b", path.read_text())
        assert actions.count("end") * 2 == len(actions), path.name


def test_the_chart_s_configuration_holds() -> None:
    config = read(CHART / "values.yaml")["config"]
    loaded = load_text(yaml.safe_dump(config), environ=SECRETS)
    assert problems_of(loaded) == []
    assert loaded.config.server.host == "0.0.0.0"


def test_compose_mounts_a_configuration_that_holds_and_gives_it_what_it_reads() -> None:
    compose = read(DEPLOY / "compose.yaml")
    armory = compose["services"]["armory"]
    assert (DEPLOY / armory["build"]["context"] / armory["build"]["dockerfile"]).is_file()
    mounted, _, target = armory["volumes"][0].partition(":")
    assert target == "/etc/armory/armory.yaml:ro"
    assert set(armory["environment"]) == set(SECRETS)
    loaded = load_text((DEPLOY / mounted).read_text(), environ=SECRETS)
    assert problems_of(loaded) == []
    storage = loaded.config.storage
    assert "@postgres/" in storage.url
    assert storage.redis is not None
    assert "//redis:" in storage.redis
    assert set(armory["depends_on"]) == {"redis", "postgres"} <= set(compose["services"])
    named = {
        volume.split(":")[0]
        for s in compose["services"].values()
        for volume in s.get("volumes", [])
    }
    assert named - {mounted} == set(compose["volumes"])


def test_grace_periods_are_longer_than_draining() -> None:
    drain_s = load_text("").config.server.drain_timeout_s
    deployment = (CHART / "templates" / "deployment.yaml").read_text()
    grace = re.search(r"terminationGracePeriodSeconds: (\d+)", deployment)
    pause = re.search(r'command: \[sleep, "(\d+)"\]', deployment)
    assert grace is not None
    assert pause is not None
    assert int(grace[1]) > drain_s + int(pause[1])
    compose = read(DEPLOY / "compose.yaml")
    assert int(compose["services"]["armory"]["stop_grace_period"].removesuffix("s")) > drain_s


def test_the_image_is_built_from_files_that_are_sent_to_it() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    sent = (DEPLOY / "Dockerfile.dockerignore").read_text()
    for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (DEPLOY.parent / name).exists()
            assert f"!{name}\n" in sent, name
