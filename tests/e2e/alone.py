"""A gateway in a network namespace of its own, and every packet in it.

Run as `unshare --net --map-root-user python -m tests.e2e.alone CONFIG`. Sends packets of its own
first, over IPv4, IPv6 and the loopback, which must be seen; then serves, searches, stops, and
prints what was seen as JSON: `{"unseen": ["address", ...], "others": ["address port", ...],
"gateway": times that the gateway was connected to, "found": the search's answer, "code": exit
code}`. Addresses of the loopback count like any other: a name is often looked up at 127.0.0.53.

Owns: the namespace's cables. Never used outside a namespace of its own.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from typing import Any
from urllib.parse import urlsplit

OWN = {"192.0.2.1": socket.AF_INET, "2001:db8:2::1": socket.AF_INET6, "127.0.0.9": socket.AF_INET}
PORT = 9
TRIES = 10
ARMORY = (sys.executable, "-m", "armory.cli.main")
_LINKS = (
    "link set lo up",
    "link add near type veth peer name far",
    "addr add 198.51.100.1/24 dev near",
    "link set near up",
    "link set far up",
    "route add default via 198.51.100.2",
    "neigh add 198.51.100.2 lladdr 02:00:00:00:00:02 dev near",
    "-6 addr add 2001:db8:1::1/64 dev near nodad",
    "-6 route add default via 2001:db8:1::2 dev near",
    "-6 neigh add 2001:db8:1::2 lladdr 02:00:00:00:00:02 dev near",
)
_IPV4, _IPV6 = 0x0800, 0x86DD
_TCP, _UDP = 6, 17
_SYN, _ACK = 0x02, 0x10


def tried(frame: bytes) -> str | None:
    """Where a frame goes whose sender wants something; None for answers and the cable's own."""
    kind, packet = int.from_bytes(frame[12:14]), frame[14:]
    if kind == _IPV4:
        protocol, target = packet[9], socket.inet_ntoa(packet[16:20])
        payload = packet[(packet[0] & 15) * 4 :]
    elif kind == _IPV6:
        protocol, payload = packet[6], packet[40:]
        target = socket.inet_ntop(socket.AF_INET6, packet[24:40])
    else:
        return None
    begins = protocol == _TCP and payload[13] & (_SYN | _ACK) == _SYN
    if begins or protocol == _UDP:
        return f"{target} {int.from_bytes(payload[2:4])}"
    return None


def watched(seen: list[str], cable: socket.socket) -> None:
    """Note what every frame of a cable tries."""
    while True:
        if target := tried(cable.recv(65_535)):
            seen.append(target)


def watch(device: str, seen: list[str]) -> None:
    """Watch one end of a cable from now on, in a thread."""
    cable = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    cable.bind((device, 0))
    threading.Thread(target=watched, args=(seen, cable), daemon=True).start()


def searched(url: str) -> dict[str, Any]:
    """A search's answer; asked again while what is indexed is not published yet."""
    search = [*ARMORY, "search", "what time is it", "--url", url, "--json"]
    found: dict[str, Any] = {}
    for _ in range(TRIES):
        answer = subprocess.run(search, capture_output=True, text=True, check=True)
        found = json.loads(answer.stdout)
        if found["tools"]:
            return found
    raise SystemExit(f"nothing found: {found}")


def main() -> None:
    """Serve, search, stop; tell what was tried."""
    for link in _LINKS:
        subprocess.run(["ip", *link.split()], check=True)
    seen: list[str] = []
    for device in ("far", "lo"):
        watch(device, seen)
    for address, family in OWN.items():
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.sendto(b"seen?", (address, PORT))
    serving = subprocess.Popen(
        [*ARMORY, "serve", "--config", sys.argv[1], "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert serving.stderr is not None
    url, awaited = "", {"armory: ready", '"tools_indexed"'}
    for line in serving.stderr:
        if told := re.search(r'listening on ([^\s"]+)', line):
            url = told[1]
        awaited = {text for text in awaited if text not in line}
        if not awaited:
            break
    answer = searched(url)
    serving.terminate()
    serving.stderr.read()
    code = serving.wait(30)
    served = urlsplit(url)
    gateway = f"{served.hostname} {served.port}"
    own = {f"{address} {PORT}" for address in OWN}
    told = {
        "unseen": sorted(own.difference(seen)),
        "others": sorted(set(seen) - own - {gateway}),
        "gateway": seen.count(gateway),
        "found": answer,
        "code": code,
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
