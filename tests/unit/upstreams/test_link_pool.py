from __future__ import annotations

from armory.upstreams.link_slot import capability_profile


def test_equal_capabilities_have_equal_profiles() -> None:
    profile = capability_profile({"a": {}, "b": {"x": 1, "y": 2}})
    assert profile == capability_profile({"b": {"y": 2, "x": 1}, "a": {}})
    assert capability_profile({"a": {}}) != capability_profile({"b": {}})
