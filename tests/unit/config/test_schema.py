from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from armory.cli.config.init import starter_text
from armory.config import load_text
from armory.config.schema import SCHEMA_FILE, config_schema, schema_text

ROOT = Path(__file__).parents[3]


@pytest.fixture
def validator() -> Any:
    Draft202012Validator.check_schema(config_schema())
    return Draft202012Validator(config_schema())


def test_the_published_schema_is_the_code_s() -> None:
    assert (ROOT / "docs" / SCHEMA_FILE).read_text() == schema_text(), "run: armory schema"


def test_shipped_files_point_at_the_schema_and_hold(validator: Any) -> None:
    for text, pointer in (
        ((ROOT / "armory.yaml").read_text(), f"docs/{SCHEMA_FILE}"),
        (starter_text(), SCHEMA_FILE),
    ):
        assert text.splitlines()[0] == f"# yaml-language-server: $schema={pointer}"
        validator.validate(yaml.safe_load(text))
        assert load_text(text).config.upstreams


def test_variables_are_accepted_where_numbers_stand(validator: Any) -> None:
    validator.validate({"server": {"port": "${PORT:-8080}"}})
    assert not validator.is_valid({"server": {"port": "eighty"}})


@pytest.mark.parametrize(
    "given",
    [
        {"security": {"oauth": {"issuer": "https://login.example.org/"}}},
        {"security": {"oauth": {"issuer": ["https://a.example/", "https://b.example/"]}}},
        {"security": {"encryption_key": "${KEY}"}},
        {"security": {"tokens": {"a": {"token": "${TOKEN}", "scopes": "admin"}}}},
        {"server": {"allowed_hosts": "tools.example.org"}},
        {"upstreams": {"a": {"command": "x", "args": [], "env": {"PORT": 8080}}}},
        {"upstreams": {"a": {"command": "x", "inherit_env": "LANG"}}},
    ],
)
def test_what_armory_takes_its_schema_takes(validator: Any, given: Any) -> None:
    """Helm refuses what the schema refuses."""
    load_text(yaml.safe_dump(given), environ={"TOKEN": "x" * 40, "KEY": "k" * 43 + "="})
    validator.validate(given)


def test_unknown_keys_are_marked_by_editors(validator: Any) -> None:
    assert not validator.is_valid({"server": {"prot": 1}})
    assert not validator.is_valid({"upstreams": {"google_docs": {"command": "x"}}})
    assert not validator.is_valid({"sets": {"On call": {"servers": ["a"]}}})
    assert validator.is_valid({"mcpServers": {"a": {"command": "x", "autoApprove": []}}})


def test_every_key_is_described() -> None:
    undescribed: list[str] = []

    def look(node: Any, path: str) -> None:
        if isinstance(node, dict):
            for name, inner in node.get("properties", {}).items():
                if "description" not in inner and "$ref" not in inner:
                    undescribed.append(f"{path}.{name}")
            for name, inner in node.items():
                look(inner, f"{path}.{name}")

    look(json.loads(schema_text()), "")
    assert undescribed == []


LEANING = re.compile(
    r"^(The same|Likewise|Its |That every|Of |As in |As registered|Such |So long)|, likewise"
)


def test_descriptions_stand_alone() -> None:
    """Editors and Helm show each by itself, without the one before it."""
    found: list[str] = []
    for name, block in config_schema()["$defs"].items():
        for key, value in block.get("properties", {}).items():
            said = value.get("description", "")
            if LEANING.search(said[:60]):
                found.append(f"{name}.{key}: {said}")
    assert found == []


def test_the_documentation_names_every_key() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    definitions = config_schema()["$defs"]
    keys = {name for block in definitions.values() for name in block.get("properties", {})}
    assert sorted(key for key in keys if key not in text) == []


def test_the_documented_configuration_is_the_default_one() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    block = text.split("```yaml\n", 1)[1].split("```", 1)[0]
    environ = {"ARMORY_HOME": "/home/a", "DOCS_TOKEN": "x"}
    documented = load_text(block, environ=environ).config
    default = load_text("", environ=environ).config
    for name in type(default).model_fields:
        if name not in ("upstreams", "sets"):
            assert getattr(documented, name) == getattr(default, name), name
    plain = load_text("upstreams: {docs: {url: 'https://example.org/mcp'}}", environ=environ)
    for key, value in plain.config.upstreams["docs"]:
        if key != "headers":
            assert getattr(documented.upstreams["docs"], key) == value, key
