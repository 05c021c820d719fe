"""Proxies that are no Python: nginx, and the gateways `agentgateway` and `vmcp`, where they are.

Owns: their configuration files and command lines. What is not on the PATH is no target.
"""

from __future__ import annotations

import re
import shutil
import subprocess

from benchmarks.load.targets import STDIO, Target

_ASKED = {"nginx": "-v", "agentgateway": "--version", "vmcp": "version"}
_HTTP_ONLY = "its upstreams are configured by URL here"

# One worker, no log, connections to the upstream kept; what is passed on is never buffered to disk.
_NGINX = """\
daemon off;
master_process off;
worker_processes 1;
pid {dir}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  client_max_body_size 16m;
  keepalive_requests 10000000;
  upstream bench {{
    server {upstream_address};
    keepalive 512;
    keepalive_requests 10000000;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://bench;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""

_AGENTGATEWAY = """\
config:
  adminAddr: 127.0.0.1:0
  statsAddr: 127.0.0.1:0
  readinessAddr: 127.0.0.1:0
  logging: {{level: error}}
binds:
- port: {port}
  listeners:
  - routes:
    - backends:
      - mcp:
          targets:
          - name: bench
            mcp: {{host: "{upstream}/{endpoint}"}}
"""

_VMCP = """\
name: bench
groupRef: bench
incomingAuth: {{type: anonymous}}
outgoingAuth: {{source: inline, default: {{type: unauthenticated}}}}
aggregation:
  conflictResolution: prefix
  conflictResolutionConfig: {{prefixFormat: "{{workload}}_"}}
backends:
- name: bench
  url: {upstream}/{endpoint}
  transport: streamable-http
"""


def targets() -> list[Target]:
    """Those that are on the PATH."""
    found: list[Target] = []
    nginx = shutil.which("nginx")
    if nginx:
        found.append(
            Target(
                "nginx",
                (nginx, "-p", "{dir}", "-c", "{dir}/nginx.conf"),
                path="/{endpoint}",
                files=(("nginx.conf", _NGINX),),
                cannot={STDIO: "passes HTTP on"},
            )
        )
    agentgateway = shutil.which("agentgateway")
    if agentgateway:
        found.append(
            Target(
                "agentgateway",
                (agentgateway, "-f", "{dir}/agentgateway.yaml"),
                files=(("agentgateway.yaml", _AGENTGATEWAY),),
                cannot={STDIO: _HTTP_ONLY},
            )
        )
    vmcp = shutil.which("vmcp")
    if vmcp:
        found.append(
            Target(
                "vmcp",
                (vmcp, "serve", "--config", "{dir}/vmcp.yaml", "--port", "{port}"),
                tool="bench_echo",
                files=(("vmcp.yaml", _VMCP),),
                cannot={STDIO: _HTTP_ONLY},
                slow=True,
            )
        )
    return found


def versions() -> dict[str, str]:
    """What each of them says of itself, by name."""
    found: dict[str, str] = {}
    for name, option in _ASKED.items():
        path = shutil.which(name)
        if path is not None:
            done = subprocess.run([path, option], capture_output=True, text=True, timeout=30)
            number = re.search(r"\d+\.\d[\w.+-]*", done.stdout + done.stderr)
            found[name] = number[0] if number else "unknown"
    return found
