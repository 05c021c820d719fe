"""Texts of letters that libraries need quadratic time for.

Bounded: what combining characters in a row cost, in texts, URIs and URLs. Python's own normal form
of 600,000 of them takes ten minutes, in which nothing else runs; a host of them as long.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from yarl import URL

from armory.oauth.metadata import is_secure
from armory.upstreams.oauth.discovery import is_at, may_carry_secrets
from armory.upstreams.oauth.providers import login_parameters, resource_for, stands_for

MARKS = "'\\u0315' * 300_000 + '\\u0300' * 300_000"
PROGRAMS = {
    "a normal form": f"""
from armory.domain.encoding import normalized
for form in ("NFC", "NFKC", "NFD", "NFKD"):
    assert len(normalized(form, "a" + {MARKS})) == 600_001
""",
    "a resource's URI": f"""
from armory.domain.uris import plain
assert plain("FILE://" + {MARKS} + "/x").startswith("file://")
""",
    "tools' descriptions": """
from armory.retrieval.lexical.text import fold, terms
for number in range(300):
    text = f"{number} a" + "\\u0315" * 9_000 + "\\u0300" * 9_000
    assert terms(text)[0] == str(number)
    assert fold(text) == f"{number} a"
""",
    "URLs of an authorization server": f"""
from yarl import URL
from armory.oauth.metadata import is_secure
from armory.upstreams.oauth.discovery import is_at, may_carry_secrets
url = "https://a" + {MARKS}
assert not may_carry_secrets(url, URL("https://up.example"))
assert not is_secure(url)
assert not is_at(url, URL("https://up.example"))
""",
    "a page's origin": f"""
from armory.wire.http.host_checks import HostChecks
assert not HostChecks().origin_allowed("http://a" + {MARKS})
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_combining_characters_in_a_row(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


def test_a_host_that_stands_for_no_name_is_one_like_others() -> None:
    """Its letters, which libraries decode where they are asked for them, are never asked for."""
    url, plain, up = "https://xn--a.example", "http://xn--a.example", URL("https://up.example")
    assert is_secure(url)
    assert not is_secure(plain)
    assert may_carry_secrets(url, up)
    assert not may_carry_secrets(plain, up)
    assert not is_at(plain, up)
    assert login_parameters(URL(url)) == {}
    assert resource_for(url, "https://up.example", ["a"]) == {"resource": "https://up.example"}
    assert not stands_for(f"{url}/common/v2.0", "https://login.microsoftonline.com/ours/v2.0")
