"""What is kept of standard error, and which line of it says most."""

from __future__ import annotations

import pytest

from armory.upstreams.error_output import KEPT_BYTES, ErrorOutput

PYTHON = """\
INFO starting
Traceback (most recent call last):
  File "/srv/server.py", line 3, in <module>
    import pandas
ModuleNotFoundError: No module named 'pandas'
Exception ignored while finalizing: ...
"""
NODE = """\
node:internal/modules/cjs/loader:1215
  throw err;
  ^

Error: Cannot find module '/srv/index.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1212:15)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
}

Node.js v22.3.0
"""
NPM = """\
npm warn deprecated inflight@1.0.6: This module is not supported
npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/no-such - Not found
npm error 404
npm error 404  'no-such@*' is not in this registry.
npm error A complete log of this run can be found in: /root/.npm/_logs/x.log
"""
VERSION = """\
npm error code ETARGET
npm error notarget No matching version found for zod@^99.
npm error notarget In most cases you or one of your dependencies are requesting
npm error notarget a package version that doesn't exist.
"""
PLAIN = """\
Please set GITHUB_TOKEN
usage: server [options]
"""
SCRIPT = """\
npm info using npm@11.19.1
npm info using node@v20.20.2
npm http fetch GET 200 https://registry.npmjs.org/puppeteer/-/puppeteer-23.11.1.tgz 37ms
npm info run puppeteer@23.11.1 postinstall node_modules/puppeteer node install.mjs
"""
FAILED = """\
npm info run esbuild@0.25.0 postinstall { code: 0, signal: null }
npm info run puppeteer@23.11.1 postinstall { code: 1, signal: null }
npm notice
npm notice To update run: npm install -g npm@11.21.2
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/srv/server.py", line 9, in main
  |     anyio.run(serve)
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/server.py", line 5, in lifespan
    |     raise ValueError("GITLAB_URL is not set")
    | ValueError: GITLAB_URL is not set
    +------------------------------------
"""
PYDANTIC = """\
Traceback (most recent call last):
  File "/srv/server.py", line 3, in <module>
    settings = Settings()
pydantic_core._pydantic_core.ValidationError: 2 validation errors for Settings
wiki_url
  Field required [type=missing, input_value={}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2.14/v/missing
wiki_user
  Field required [type=missing, input_value={}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2.14/v/missing
"""
ZOD = """\
/srv/node_modules/zod/index.js:7
        throw new ZodError(issues);
        ^

ZodError: [
  {
    "code": "invalid_type",
    "path": [
      "WIKI_URL"
    ],
    "message": "Required"
  }
]
    at parse (/srv/node_modules/zod/index.js:7:15)

Node.js v22.3.0
"""
RICH = """\
Usage: wiki [OPTIONS]
Try 'wiki --help' for help.
╭─ Error ─────────────────────────────────────╮
│ Missing option '--url' (env var: 'WIKI_URL')│
╰─────────────────────────────────────────────╯
"""
YARGS = """\
Usage: wiki --url <url>

Options:
  -h, --help     Show help                    [boolean]
      --url      where the wiki is   [string] [required]
      --version  Show version number          [boolean]

Missing required argument: url
"""
BELOW = """\
Error: these variables have to be set:
  - WIKI_URL
  - WIKI_USER
    at main (/srv/index.js:3:7)
"""
FETCH = """\
[27] Fatal error: TypeError: fetch failed
    at node:internal/deps/undici/undici:13510:13
    at async connect (file:///srv/index.js:3:7) {
  [cause]: Error: connect ECONNREFUSED 127.0.0.1:8000
      at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1611:16) {
    errno: -111,
    code: 'ECONNREFUSED',
  }
}
"""
UV = """\
error: No solution found when resolving tool dependencies
  cause: Because the current Python version is too old for all of:
             wiki<2
         cannot be used.
"""
NAMELESS = """\
An executable named `wiki` is not provided by package `wiki-server`.
The following executables are available:
- wiki-server
"""


@pytest.mark.parametrize(
    ("output", "telling"),
    [
        (FETCH, "Error: connect ECONNREFUSED 127.0.0.1:8000"),
        (
            UV,
            "error: No solution found when resolving tool dependencies cause: Because the current"
            " Python version is too old for all of: wiki<2 cannot be used.",
        ),
        (NAMELESS, "An executable named `wiki` is not provided by package `wiki-server`."),
        (GROUP, "ValueError: GITLAB_URL is not set"),
        (
            PYDANTIC,
            "pydantic_core._pydantic_core.ValidationError: 2 validation errors for Settings"
            " wiki_url Field required [type=missing, input_value={}, input_type=dict]"
            " wiki_user Field required [type=missing, input_value={}, input_type=dict]",
        ),
        (
            ZOD,
            'ZodError: [ { "code": "invalid_type", "path": [ "WIKI_URL" ], "message": "Required"'
            " } ]",
        ),
        (RICH, "Missing option '--url' (env var: 'WIKI_URL')"),
        (YARGS, "Missing required argument: url"),
        (BELOW, "Error: these variables have to be set: - WIKI_URL - WIKI_USER"),
        (
            "At least one of WIKI_URL and WIKI_PATH must be set\nbye\n",
            "At least one of WIKI_URL and WIKI_PATH must be set",
        ),
        (PYTHON, "ModuleNotFoundError: No module named 'pandas'"),
        (NODE, "Error: Cannot find module '/srv/index.js'"),
        (NPM, "404 Not Found - GET https://registry.npmjs.org/no-such - Not found"),
        (VERSION, "notarget No matching version found for zod@^99."),
        (PLAIN, "Please set GITHUB_TOKEN"),
        ("one\ntwo\n", "two"),
        ("npm warn Unknown user config\n", ""),
        (SCRIPT, ""),
        (
            SCRIPT + FAILED,
            "the postinstall script of puppeteer@23.11.1 failed with status 1; its command by hand"
            " with the option --foreground-scripts shows why",
        ),
        (SCRIPT + FAILED + "no key given\n", "no key given"),
        ("", ""),
        (
            "/srv/bin/python3: No module named mcp_server_time\n",
            'No module named mcp_server_time; pip install "armory-mcp-gateway[demo]" brings it',
        ),
        ("python3: No module named other_time\n", "python3: No module named other_time"),
    ],
)
def test_the_line_that_says_most_is_quoted(output: str, telling: str) -> None:
    kept = ErrorOutput()
    one, other = kept.of_one(), kept.of_one()
    other.add(b"Error: of another process")
    for line in output.splitlines():
        one.add(line.encode())
    other.add(b"Error: of another process, later")
    assert one.telling() == telling
    assert kept.lines()[1:-1] == one.lines()


def test_what_npm_does_is_its_last_word_until_the_server_speaks() -> None:
    kept = ErrorOutput()
    said: list[str] = []
    for line in (*SCRIPT.splitlines(), "npm info ok", "listening"):
        kept.add(line.encode())
        said.append(kept.last())
    assert said[:2] == ["", ""]
    assert said[2].startswith("npm http fetch GET 200")
    assert said[3:5] == [SCRIPT.splitlines()[3]] * 2
    assert said[5] == "listening"


def test_the_last_64_kib_are_kept_without_secrets() -> None:
    kept = ErrorOutput()
    for number in range(10_000):
        kept.add(b"line %d" % number)
    kept.add(b"password=abcdefgh1234")
    lines = kept.lines()
    assert sum(len(line) + 1 for line in lines) <= KEPT_BYTES
    assert lines[-2:] == ["line 9999", "password=***"]
    assert kept.last() == "password=***"
    kept.add(b"}")
    kept.add(b"npm warn deprecated: something")
    assert kept.last() == "password=***"


def test_what_is_cut_ends_in_dots() -> None:
    kept = ErrorOutput()
    kept.add(b"Error: " + b"because " * 100)
    assert len(kept.telling()) == 300
    assert kept.telling().endswith(" because beca\u2026")
