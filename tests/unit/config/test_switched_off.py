"""An upstream with `enabled: false`: not started, and free to be unfinished."""

from __future__ import annotations

from armory.config import load_text, warnings_of
from armory.runtime.blocks.upstreams import upstream_specs
from tests.unit.config.refused import problems

URL = 'url: https://a.example/mcp, headers: {Authorization: "Bearer ${T}"}'
OFF = f"off: {{enabled: false, {URL}}}"


def test_it_is_not_started_and_its_variables_may_be_unset() -> None:
    loaded = load_text(f"upstreams: {{{OFF}, on: {{command: x}}}}", environ={})
    assert [spec.key for spec in upstream_specs(loaded)] == ["on"]
    assert warnings_of(loaded.config) == []


def test_that_every_one_is_switched_off_is_said() -> None:
    said = warnings_of(load_text(f"upstreams: {{{OFF}}}", environ={}).config)
    assert said == ["upstreams: every one is switched off, so there is no tool to offer"]


def test_variables_of_the_others_are_needed_and_so_is_a_url_that_is_one() -> None:
    beside = problems(f"upstreams: {{{OFF}, on: {{command: x, args: ['${{T}}']}}}}")
    assert list(beside) == ["upstreams.on.args[0]"]
    whole = problems("upstreams: {a: {enabled: false, url: '${U}'}}")
    assert "variable U is not set" in whole["upstreams.a.url"]
