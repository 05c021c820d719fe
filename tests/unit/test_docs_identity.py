"""Every `armory.yaml` of docs/identity.md is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from armory.config import load_text
from armory.runtime.blocks.authentication import authenticator
from armory.runtime.blocks.upstreams import upstream_specs

TEXT = (Path(__file__).parents[2] / "docs" / "identity.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^### (\d)\.(.*?)(?=^#{2,3} |\Z)", TEXT, re.MULTILINE | re.DOTALL)
BLOCKS = [
    (number, block)
    for number, section in SECTIONS
    for block in re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
]


def test_each_set_up_has_one_and_the_fifth_two_and_the_seventh_three() -> None:
    assert [number for number, _ in BLOCKS] == list("1234556777")


@pytest.mark.parametrize(("number", "text"), BLOCKS)
def test_it_is_valid_and_lets_nobody_in_by_mistake(number: str, text: str, tmp_path: Path) -> None:
    variables = dict.fromkeys(re.findall(r"\$\{([A-Z_]+)\}", text), "a-secret-for-a-test")
    loaded = load_text(text, environ={**variables, "ARMORY_HOME": str(tmp_path)})
    assert upstream_specs(loaded), number
    assert not authenticator(loaded.config).everybody
