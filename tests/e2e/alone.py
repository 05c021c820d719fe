"""A gateway in a network namespace of its own, and every packet that leaves it.

Run as `unshare --net --map-root-user python -m tests.e2e.alone CONFIG`. Sends a packet of its own
first, which must be seen, then serves, searches, stops, and prints what was seen as JSON:
`{"own": bool, "others": ["address:port", ...], "found": "the first tool", "code": exit code}`.

Owns: the namespace's cable. Never used outside a namespace of its own.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading

OWN = ("192.0.2.1", 9)
ARMORY = (sys.executable, "-m", "armory.cli.main")
_LINKS = (
    "link set lo up",
    "link add near type veth peer name far",
    "addr add 198.51.100.1/24 dev near",
    "link set near up",
    "link set far up",
    "route add default via 198.51.100.2",
    "neigh add 198.51.100.2 lladdr 02:00:00:00:00:02 dev near",
)
_IPV4 = 0x0800
_UNANSWERED = (b"\x11", b"\x06")


def watched(seen: list[str], far: socket.socket) -> None:
    """Note where each UDP and TCP packet over IPv4 goes; others are the cable's own."""
    while True:
        frame = far.recv(65_535)
        packet = frame[14:]
        if int.from_bytes(frame[12:14]) == _IPV4 and packet[9:10] in _UNANSWERED:
            ports = packet[(packet[0] & 15) * 4 :]
            seen.append(f"{socket.inet_ntoa(packet[16:20])}:{int.from_bytes(ports[2:4])}")


def main() -> None:
    """Serve, search, stop; tell what was tried."""
    for link in _LINKS:
        subprocess.run(["ip", *link.split()], check=True)
    seen: list[str] = []
    far = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    far.bind(("far", 0))
    threading.Thread(target=watched, args=(seen, far), daemon=True).start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.sendto(b"seen?", OWN)
    serving = subprocess.Popen(
        [*ARMORY, "serve", "--config", sys.argv[1], "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert serving.stderr is not None
    url = ""
    for line in serving.stderr:
        if told := re.search(r'listening on ([^\s"]+)', line):
            url = told[1]
        if "armory: ready" in line:
            break
    search = [*ARMORY, "search", "what time is it", "--url", url, "--json"]
    answer = subprocess.run(search, capture_output=True, text=True, check=True)
    serving.terminate()
    serving.stderr.read()
    code = serving.wait(30)
    found = json.loads(answer.stdout)
    own = f"{OWN[0]}:{OWN[1]}"
    others = [target for target in seen if target != own]
    told = {"own": own in seen, "others": others, "found": found, "code": code}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
