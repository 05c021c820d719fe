"""A Dockerfile as data: its stages, their steps and what the image says of itself.

Owns: reading the instructions that `deploy/Dockerfile` uses; another one is refused by name.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Mount:
    """`--mount=type=bind,from=STAGE,source=PATH,target=PATH` of a RUN."""

    stage: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Run:
    """One RUN: a shell command and what is mounted for it."""

    command: str
    mounts: tuple[Mount, ...]
    env: Mapping[str, str]
    folder: str


@dataclass(frozen=True, slots=True)
class Copy:
    """One COPY, out of the context or out of another stage."""

    sources: tuple[str, ...]
    target: str
    stage: str | None
    folder: str


@dataclass(slots=True)
class Stage:
    """One FROM to the next.

    Attributes:
        name: after AS.
        base: another stage's name, or an image.
        steps: what changes files, in order.
        config: as in an image's configuration.
    """

    name: str
    base: str
    steps: list[Run | Copy] = field(default_factory=list[Run | Copy])
    config: dict[str, Any] = field(default_factory=dict[str, Any])


def stages(path: Path) -> dict[str, Stage]:
    """Every stage by name, each with what it inherits in its configuration.

    Raises:
        ValueError: an instruction is not known here.
    """
    text = re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = re.sub(r"\\\n\s*", " ", text)
    found: dict[str, Stage] = {}
    stage: Stage | None = None
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            inherited = found[base].config if base in found else {}
            stage = Stage(name, base, config=json.loads(json.dumps(inherited)))
            found[name] = stage
        elif stage is None:
            raise ValueError(f"{word} before the first FROM")
        else:
            _add(stage, word, rest.strip())
    return found


def _add(stage: Stage, word: str, rest: str) -> None:
    config = stage.config
    folder = config.get("WorkingDir", "/")
    env: dict[str, str] = config.setdefault("Env", {})
    arguments: dict[str, str] = config.setdefault("Args", {})
    if word == "RUN":
        mounts: list[Mount] = []
        while match := re.match(r"--mount=type=bind,(\S+)\s+", rest):
            parts = dict(part.split("=", 1) for part in match[1].split(","))
            mounts.append(Mount(parts["from"], parts["source"], parts["target"]))
            rest = rest[match.end() :]
        stage.steps.append(Run(rest, tuple(mounts), {**arguments, **env}, folder))
    elif word == "COPY":
        match = re.match(r"--from=(\S+)\s+", rest)
        *sources, target = rest[match.end() if match else 0 :].split()
        stage.steps.append(Copy(tuple(sources), target, match[1] if match else None, folder))
    elif word in ("ENV", "LABEL"):
        values = {**arguments, **env}
        pairs = [part.partition("=") for part in shlex.split(rest)]
        place = env if word == "ENV" else config.setdefault("Labels", {})
        place |= {name: _filled(value, values) for name, _, value in pairs}
    elif word == "ARG":
        name, _, default = rest.partition("=")
        arguments[name] = default
    elif word in ("ENTRYPOINT", "CMD"):
        config["Entrypoint" if word == "ENTRYPOINT" else "Cmd"] = json.loads(rest)
    elif word == "HEALTHCHECK":
        config["Healthcheck"] = json.loads(rest[rest.index("[") :])
    elif word in ("USER", "WORKDIR"):
        config["User" if word == "USER" else "WorkingDir"] = rest
    elif word in ("EXPOSE", "VOLUME"):
        config.setdefault("ExposedPorts" if word == "EXPOSE" else "Volumes", []).append(rest)
    else:
        raise ValueError(f"{word} is not known here: {rest}")


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], text)


def image_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A stage's configuration as image archives have it."""
    path = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
    env: Mapping[str, str] = {"PATH": path, **config.get("Env", {})}
    entrypoint: Sequence[str] = config.get("Entrypoint", [])
    return {
        "User": config.get("User", ""),
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Entrypoint": list(entrypoint),
        "Cmd": config.get("Cmd", []),
        "WorkingDir": config.get("WorkingDir", "/"),
        "Labels": config.get("Labels", {}),
        "ExposedPorts": {f"{port}/tcp": {} for port in config.get("ExposedPorts", [])},
        "Volumes": {place: {} for place in config.get("Volumes", [])},
    }
