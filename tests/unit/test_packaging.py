"""What the distributions hold, and which versions they say that they work with."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_document_of_the_root_is_in_the_source_distribution() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {path.name for path in ROOT.glob("*.md")} <= {*included, PROJECT["project"]["readme"]}


def test_the_pythons_that_are_named_are_those_that_are_allowed_and_tested() -> None:
    allowed = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["project"]["requires-python"])
    assert allowed is not None
    pythons = [f"3.{minor}" for minor in range(int(allowed[1]), int(allowed[2]))]
    language = "Programming Language :: Python :: "
    named = [one for one in PROJECT["project"]["classifiers"] if one.startswith(language)]
    assert named == [f"{language}{version}" for version in pythons]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow["jobs"]["checks"]["strategy"]["matrix"]["python"] == pythons
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"*Python {', '.join(pythons)} ·" in readme
    assert f"Python {pythons[0]} to {pythons[-1]} and nothing else" in readme


def test_what_others_made_is_distributed_with_its_notices() -> None:
    named = PROJECT["project"]["license-files"]
    package = ROOT / "armory"
    found = [*package.rglob("NOTICE*"), *package.rglob("licences.txt")]
    assert {"LICENSE", "NOTICE", *(str(path.relative_to(ROOT)) for path in found)} == {*named}
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert all(path in notice for path in named if path.startswith("armory/"))
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in named}
    words = texts["armory/retrieval/lexical/NOTICE"]
    for holder in ("Kevin Atkinson", "Princeton University", "Geoff Kuenning", "J Ross Beresford"):
        assert holder in words
    assert "Microsoft Corporation" in texts["armory/retrieval/models/embedded/NOTICE"]
    bundled = json.loads((ROOT / "console" / "package.json").read_text())["dependencies"]
    for name, version in bundled.items():
        assert f"\n{name} {version}\n" in texts["armory/web/console/static/licences.txt"]
