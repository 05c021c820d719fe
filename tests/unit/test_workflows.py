"""The workflows name what there is, and run nothing that somebody else can change."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.image.dockerfile import stages

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: Path) -> dict[str, Any]:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_are_pinned_rights_are_few_and_jobs_end(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        if job.keys() == {"uses"}:
            assert (ROOT / job["uses"]).is_file()
            assert "workflow_call" in read(ROOT / job["uses"])["on"]
            continue
        assert int(job["timeout-minutes"]) <= 60, name
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(jobs), name
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]), step["uses"]


def test_the_release_builds_what_the_dockerfile_has_for_both_machines() -> None:
    images = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["images"]
    targets = {one["target"] for one in images["strategy"]["matrix"]["include"]}
    dockerfile = stages(ROOT / "deploy" / "Dockerfile")
    assert targets == {name for name, stage in dockerfile.items() if "User" in stage.config}
    (build,) = [step["with"] for step in images["steps"] if "file" in step.get("with", {})]
    assert build["platforms"] == "linux/amd64,linux/arm64"
    assert build["sbom"] == "true"
    given = set(re.findall(r"^(\w+)=", build["build-args"], re.MULTILINE))
    assert given <= set(dockerfile["base"].config["Args"])


def test_package_and_chart_are_one_version() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "armory" / "Chart.yaml").read_text())
    assert chart["appVersion"] == package
    compared = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert 'version = \\"$version\\"' in compared
    assert f'version = "{package}"\n' in (ROOT / "pyproject.toml").read_text()


def test_nothing_is_published_before_everything_was_checked() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert jobs["checks"] == {"uses": "./.github/workflows/ci.yml"}

    def before(name: str) -> set[str]:
        needs = jobs[name].get("needs", [])
        direct = {needs} if isinstance(needs, str) else {*needs}
        return direct.union(*map(before, direct))

    publishing = {
        name for name, job in jobs.items() if "write" in {*job.get("permissions", {}).values()}
    }
    assert publishing == {"images", "chart", "pypi", "release"}
    assert all({"checks", "wheel"} <= before(name) for name in publishing)


def test_a_release_has_its_own_files_and_its_own_part_of_the_changelog() -> None:
    """All artifacts would be those of the images' build, too; the whole changelog is too long."""
    steps = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["release"]["steps"]
    downloads = [step["with"] for step in steps if "download" in step.get("uses", "")]
    assert [one.get("name") for one in downloads] == ["dist", "chart"]
    (command,) = [step["run"] for step in steps if "gh release" in step.get("run", "")]
    assert "--notes-file CHANGELOG.md" not in command
    (cut,) = [line for line in command.splitlines() if "awk" in line]
    changes = (
        "# Changelog\n\n## [0.10.0]\n- new\n\n## [0.1.0]\n- old\n### Fixed\n- more\n\n## [0.0.1]\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "CHANGELOG.md").write_text(changes)
        told = {"RUNNER_TEMP": folder, "version": "0.1.0", "PATH": os.environ["PATH"]}
        subprocess.run(["sh", "-c", cut], check=True, cwd=folder, env=told, timeout=60)
        notes = (Path(folder) / "notes").read_text()
    assert notes == "## [0.1.0]\n- old\n### Fixed\n- more\n\n"


def test_examples_name_images_of_this_version() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    places = [ROOT / "deploy" / "README.md", ROOT / "docs" / "operating.md"]
    places += (ROOT / "deploy" / "helm" / "armory" / "ci").glob("*.yaml")
    named = re.compile(r"(?:armory:|tag: )(\d[\w.]*)")
    tags = [tag for place in places for tag in named.findall(place.read_text(encoding="utf-8"))]
    assert len(tags) > 3
    assert {*tags} == {package}
