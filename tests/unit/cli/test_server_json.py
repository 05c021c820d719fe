"""`server.json`: what the MCP registry says of a server becomes an upstream."""

from __future__ import annotations

from typing import Any

import pytest

from armory.cli.config.server_json import Described, Setting, described
from armory.config import load_text
from armory.errors import InvalidRequest

Json = dict[str, Any]


def nobody(_wanted: Setting) -> None:
    """Nothing is told."""


def taken(server: Json, kind: str | None = None, **told: str) -> Described:
    """A description read, with what was told by name."""
    return described({"name": "io.example/one", **server}, lambda w: told.get(w.name), kind)


def package(kind: str, **more: object) -> Json:
    return {
        "registryType": kind,
        "identifier": "one",
        "version": "1.2",
        "transport": {"type": "stdio"},
        **more,
    }


@pytest.mark.parametrize(
    ("kind", "command", "args"),
    [
        ("npm", "npx", ["-y", "one@1.2", "--mode=fast", "/data"]),
        ("pypi", "uvx", ["one@1.2", "--mode=fast", "/data"]),
        ("nuget", "dnx", ["one@1.2", "--yes", "--", "--mode=fast", "/data"]),
        ("oci", "docker", ["run", "-i", "--rm", "-e", "A", "one:1.2", "--mode=fast", "/data"]),
    ],
)
def test_a_package_becomes_its_launchers_command(kind: str, command: str, args: list[str]) -> None:
    offer = package(
        kind,
        packageArguments=[
            {"type": "named", "name": "--mode", "default": "fast"},
            {"type": "positional", "valueHint": "folder", "isRequired": True},
            {"type": "named", "name": "--unasked", "description": "left out"},
        ],
        environmentVariables=[{"name": "A", "value": "1"}, {"name": "B"}],
    )
    offer["packageArguments"][2]["isRequired"] = False
    offer["packageArguments"][2]["format"] = "string"
    block = taken({"packages": [offer]}, folder="/data").block
    assert block == {"command": command, "args": args, "env": {"A": "1"}}
    load_text(f"upstreams: {{one: {block}}}")


def test_arguments_of_the_launcher_come_first_and_bare_flags_stay_bare() -> None:
    offer = package(
        "oci",
        identifier="ghcr.io/example/one:9",
        runtimeArguments=[
            {"type": "named", "name": "-v", "value": "{where}:/data", "variables": {"where": {}}},
            {"type": "named", "name": "--init"},
        ],
    )
    block = taken({"packages": [offer]}, where="/srv").block
    assert block["args"][3:] == ["-v", "/srv:/data", "--init", "ghcr.io/example/one:9"]


@pytest.mark.parametrize(
    ("kind", "at", "identifier", "args"),
    [
        ("oci", "https://ghcr.io", "user/one", ["run", "-i", "--rm", "ghcr.io/user/one:1.2"]),
        ("oci", "https://ghcr.io", "ghcr.io/u/one", ["run", "-i", "--rm", "ghcr.io/u/one:1.2"]),
        ("oci", "https://docker.io", "user/one", ["run", "-i", "--rm", "user/one:1.2"]),
        ("npm", "https://npm.corp/r", "one", ["--registry", "https://npm.corp/r", "-y", "one@1.2"]),
        ("npm", "https://registry.npmjs.org/", "one", ["-y", "one@1.2"]),
        ("pypi", "https://p.corp", "one", ["--default-index", "https://p.corp", "one@1.2"]),
        ("pypi", "https://pypi.org", "one", ["one@1.2"]),
        ("nuget", "https://n.corp", "one", ["--source", "https://n.corp", "one@1.2", "--yes"]),
        ("nuget", "https://api.nuget.org/v3/index.json", "one", ["one@1.2", "--yes"]),
    ],
)
def test_a_package_is_taken_from_where_it_lies(
    kind: str, at: str, identifier: str, args: list[str]
) -> None:
    for name in ("registryBaseUrl", "registry_base_url"):
        offer = package(kind, identifier=identifier, **{name: at})
        assert taken({"packages": [offer]}).block["args"] == args


def test_a_remote_is_taken_first_and_streamable_before_sse() -> None:
    server = {
        "packages": [package("npm")],
        "remotes": [
            {"type": "sse", "url": "https://one.example/sse"},
            {
                "type": "streamable-http",
                "url": "https://{tenant}.one.example/mcp",
                "variables": {"tenant": {"isRequired": True}},
                "headers": [{"name": "X-Key", "isRequired": True, "isSecret": True}],
            },
        ],
    }
    found = taken(server, tenant="acme")
    assert found.block == {
        "url": "https://acme.one.example/mcp",
        "transport": "streamable-http",
        "headers": {"X-Key": "${X_KEY}"},
    }
    assert [wanted.name for wanted in found.missing] == ["X-Key"]
    assert found.notices == ["taken as remote; it is offered as npm, too"]
    assert taken(server, "npm").block["command"] == "npx"


def test_a_description_reads_no_variable_of_this_machine() -> None:
    server = {
        "remotes": [
            {
                "type": "streamable-http",
                "url": "https://one.example/${SECRET}",
                "headers": [
                    {"name": "A", "value": "${SECRET}"},
                    {"name": "B", "default": "${env:SECRET}"},
                ],
            }
        ]
    }
    block = taken(server).block
    assert block["headers"] == {"A": "$${SECRET}", "B": "$${env:SECRET}"}
    loaded = load_text(f"upstreams: {{one: {block}}}", environ={"SECRET": "told"})
    assert "told" not in repr(loaded.config)


def test_the_older_spelling_is_read_too() -> None:
    server = {
        "packages": [
            {
                "registry_type": "pypi",
                "identifier": "weather",
                "version": "0.5.0",
                "environment_variables": [{"name": "API_KEY", "is_required": True}],
                "package_arguments": [
                    {
                        "type": "positional",
                        "value_hint": "a_place",
                        "value": "{a_place}",
                        "variables": {"a_place": {"default": "Oslo"}},
                    }
                ],
            }
        ]
    }
    assert taken(server).block == {
        "command": "uvx",
        "args": ["weather@0.5.0", "Oslo"],
        "env": {"API_KEY": "${API_KEY}"},
    }


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "no server.json"),
        ({"description": "nameless"}, "no member 'name'"),
        ({"name": "a/b"}, "none of its packages or remotes"),
        ({"name": "a/b", "packages": [package("mcpb")]}, "npm, PyPI, OCI or NuGet"),
        (
            {"name": "a/b", "packages": [package("npm", transport={"type": "sse", "url": "x"})]},
            "speaks stdio",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(document: object, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        described(document, nobody)


def test_an_offer_that_is_not_there_and_a_choice_that_is_none() -> None:
    with pytest.raises(InvalidRequest, match="offered as npm, not as oci"):
        taken({"packages": [package("npm")]}, "oci")
    offer = package("npm", environmentVariables=[{"name": "MODE", "choices": ["a", "b"]}])
    with pytest.raises(InvalidRequest, match="MODE is 'c'; expected one of a, b"):
        taken({"packages": [offer]}, MODE="c")
