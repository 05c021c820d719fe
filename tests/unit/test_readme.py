from __future__ import annotations

import re
import tomllib
from pathlib import Path

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


PAGES = [
    path
    for folder in (".", "docs", "docs/decisions", "training", "benchmarks/*", "tests/*", "examples")
    for path in sorted(ROOT.glob(f"{folder}/*.md"))
]


def test_links_between_the_texts_lead_somewhere() -> None:
    """To a file that is there, and to a heading that it has."""
    dead: list[str] = []
    for path in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", _prose(path)):
            file, _, anchor = target.partition("#")
            found = path.parent / file if file else path
            if "://" in target:
                continue
            if not found.exists() or (anchor and anchor not in _anchors(found)):
                dead.append(f"{path.relative_to(ROOT)}: {target}")
    assert len(PAGES) > 50
    assert dead == []


def _prose(path: Path) -> str:
    return re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def _anchors(path: Path) -> set[str]:
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", _prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}
