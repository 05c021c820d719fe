from __future__ import annotations

import re
import tomllib

import pytest

from armory.protocol.versions import LEGACY_VERSIONS, MODERN_VERSIONS
from benchmarks.tables import FILES, ROOT, filled


@pytest.mark.parametrize("name", FILES)
def test_the_texts_show_the_figures_that_were_measured(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert filled(text) == text, "run: python -m benchmarks.tables"


def test_what_the_first_lines_claim_is_what_the_package_says() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    kinds = " ".join(project["classifiers"])
    pythons = ", ".join(re.findall(r"Python :: (3\.\d+)", kinds))
    revisions = sorted((*LEGACY_VERSIONS, *MODERN_VERSIONS))
    stage = re.findall(r"Development Status :: \d - (\w+)", kinds)[0].lower()
    license_text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in license_text
    claim = f"Python {pythons} · MCP {revisions[0]} to {revisions[-1]} · {project['license']}"
    assert f"*{claim} · {stage}*" in readme
    least = re.fullmatch(r">=(3\.\d+)", project["requires-python"])
    assert least is not None
    assert pythons.startswith(least[1])


@pytest.mark.parametrize("folder", ["docs", "."])
def test_links_between_the_texts_lead_somewhere(folder: str) -> None:
    dead: list[str] = []
    for path in sorted((ROOT / folder).glob("*.md")):
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        dead += [
            f"{path.name}: {target}"
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
            if "://" not in target and not (path.parent / target).exists()
        ]
    assert dead == []
