"""Which entries of skills hosts may load, and how they are exposed."""

from __future__ import annotations

from typing import Any

import pytest

from armory.domain.skills import (
    MAX_BYTES,
    exposed_skill,
    skill_problem,
)
from armory.protocol.capabilities import SKILLS_EXTENSION, merged_skills_settings, skills_settings

URI = "skill://acme/refunds/SKILL.md"


def file(uri: str = URI, size: object = 3, digest: object = f"sha256:{'a' * 64}") -> dict[str, Any]:
    return {"uri": uri, "digest": digest, "size": size}


def skill(**changes: Any) -> dict[str, Any]:
    frontmatter = {"name": "refunds", "description": "Refund money", "x": [1]}
    return {"uri": URI, "frontmatter": frontmatter, "resources": [file()], **changes}


@pytest.mark.parametrize(
    "good",
    [
        skill(),
        skill(resources="dynamic"),
        skill(resources=[file(), file("skill://acme/refunds/a/b.md", 0)]),
        skill(uri="skill://refunds/SKILL.md", resources=[file("skill://refunds/SKILL.md")]),
    ],
)
def test_what_a_skill_may_say(good: dict[str, Any]) -> None:
    assert skill_problem(good) is None


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (skill(uri="skill://acme/refunds"), "SKILL.md"),
        (skill(frontmatter=None), "no object"),
        (skill(frontmatter={"name": "refunds"}), "no description"),
        (skill(frontmatter={"name": 7, "description": "x"}), "no name"),
        (skill(frontmatter={"name": "other", "description": "x"}), "not called 'other'"),
        (skill(resources=None), "neither a list"),
        (skill(resources="static"), "neither a list"),
        (skill(resources=[]), "lack its SKILL.md"),
        (skill(resources=[7]), "no object"),
        (skill(resources=[file(), file()]), "twice"),
        (skill(resources=[file(), file("skill://acme/other/x")]), "not below"),
        (skill(resources=[file(digest="sha256:AA")]), "digest"),
        (skill(resources=[file(size=True)]), "size"),
        (skill(resources=[file(size=-1)]), "size"),
        (skill(resources=[file(size=MAX_BYTES + 1)]), "bytes; hosts take"),
        (skill(resources=[file(), *(file(f"{URI[:-8]}{n}") for n in range(512))]), "513 files"),
    ],
)
def test_bad_ones_say_why(bad: dict[str, Any], why: str) -> None:
    assert why in (skill_problem(bad) or "")


def test_uris_are_exposed_and_nothing_else() -> None:
    shown = exposed_skill(skill(_meta={"a": 1}), "shop")
    assert shown["uri"] == "skill://shop/acme/refunds/SKILL.md"
    assert shown["resources"] == [file("skill://shop/acme/refunds/SKILL.md")]
    assert (shown["frontmatter"], shown["_meta"]) == (skill()["frontmatter"], {"a": 1})
    assert exposed_skill(skill(resources="dynamic"), "shop")["resources"] == "dynamic"


def test_the_extension_of_several() -> None:
    plain, able = (
        {"extensions": {SKILLS_EXTENSION: {}}},
        {"extensions": {SKILLS_EXTENSION: {"directoryRead": True}}},
    )
    assert skills_settings({"extensions": {SKILLS_EXTENSION: True}}) is None
    assert merged_skills_settings([{}, {"extensions": []}]) is None
    assert merged_skills_settings([{}, plain]) == {}
    assert merged_skills_settings([able, plain]) == {"directoryRead": True}
