"""What a stdio server gets of the gateway's own environment."""

from __future__ import annotations

import pytest

from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.environment import inherited
from armory.upstreams.transports.process import environment

NETWORK = {
    "HTTP_PROXY": "http://proxy.example:3128",
    "https_proxy": "http://me:of-the-proxy@proxy.example:3128",
    "NO_PROXY": "localhost",
    "SSL_CERT_FILE": "/etc/corporate.pem",
    "NODE_EXTRA_CA_CERTS": "/etc/corporate.pem",
    "npm_config_registry": "https://npm.example/",
    "NPM_CONFIG_CACHE": "/var/cache/npm",
    "UV_INDEX_URL": "https://pypi.example/simple",
    "UV_KEYRING_PROVIDER": "disabled",
    "PIP_INDEX_URL": "https://pypi.example/simple",
}
CREDENTIALS = {
    "AWS_SECRET_ACCESS_KEY": "x",
    "OPENAI_API_KEY": "x",
    "GITHUB_TOKEN": "x",
    "ARMORY_TOKEN": "x",
    "SSH_AUTH_SOCK": "/run/agent",
    "KUBECONFIG": "/home/me/.kube/config",
    "NPM_CONFIG__AUTH": "x",
    "npm_config_//npm.example/:_authToken": "x",
    "UV_PUBLISH_TOKEN": "x",
    "UV_INDEX_INNER_PASSWORD": "x",
    "PIP_EXTRA_INDEX_URL": "https://pypi.example/simple https://me:pw@inner.example/simple",
}


def test_proxies_certificates_and_launchers_settings_are_passed_on_and_no_credential() -> None:
    assert inherited({**NETWORK, **CREDENTIALS, "PATH": "/bin"}) == {**NETWORK, "PATH": "/bin"}


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["KUBECONFIG", "DISPLAY"], {"KUBECONFIG"}),
        (["aws_*"], {"AWS_SECRET_ACCESS_KEY"}),
        (["UV_PUBLISH_TOKEN"], {"UV_PUBLISH_TOKEN"}),
        (["*"], set(CREDENTIALS)),
    ],
)
def test_what_a_pattern_names_is_passed_on_whatever_it_is(
    patterns: list[str], names: set[str]
) -> None:
    assert set(inherited(CREDENTIALS, patterns)) == names


def test_what_is_configured_wins_over_what_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/config")
    env = {"HTTPS_PROXY": ""}
    spec = UpstreamSpec(key="a", command="x", env=env, inherit_env=("KUBE*",))
    found = environment(spec)
    assert (found["HTTPS_PROXY"], found["KUBECONFIG"]) == ("", "/home/me/.kube/config")


def test_npm_says_what_it_does_unless_somebody_chose_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "npm_config_loglevel"
    for other in (name, name.upper()):
        monkeypatch.delenv(other, raising=False)
    npx = UpstreamSpec("up", command="npx", args=("-y", "server"))
    assert environment(npx)[name] == "info"
    assert environment(UpstreamSpec("up", command="npm", args=("exec", "server")))[name] == "info"
    for command in ("uvx", "node"):
        assert name not in environment(UpstreamSpec("up", command=command, args=("server",)))
    chosen = UpstreamSpec("up", command="npx", args=("server",), env={name.upper(): "error"})
    assert name not in environment(chosen)
    monkeypatch.setenv(name, "silent")
    assert environment(npx)[name] == "silent"
