"""Fetch the conformance servers of the official SDKs, and build the programs in Go, once:

    python tests/protocol/conformance/prepare.py FOLDER

then set `ARMORY_TEST_SDKS=FOLDER`. The Python SDK's server comes out of its source archive, the Go
SDK's is built where there is a Go toolchain (`tests/clients/go`), as is a certified OpenID provider
(`tests/e2e/identity/go`).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

GO = Path(__file__).parents[2] / "clients" / "go"
GO_PROVIDER = Path(__file__).parents[2] / "e2e" / "identity" / "go"
GO_SERVER = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"
PYTHON_SERVER = "examples/servers/everything-server/mcp_everything_server"


def python_server(folder: Path) -> None:
    """Unpack the server of the SDK that is installed here."""
    wanted = f"mcp=={version('mcp')}"
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "mcp"]
        subprocess.run([*pip, "-d", place, wanted], check=True)
        (archive,) = Path(place).glob("mcp-*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(place, filter="data")
        unpacked = Path(place) / archive.name.removesuffix(".tar.gz") / PYTHON_SERVER
        shutil.copytree(unpacked, folder / unpacked.name, dirs_exist_ok=True)


def main() -> None:
    """Make everything that is not there yet."""
    folder = Path(sys.argv[1]).resolve()
    if not (folder / "python").exists():
        python_server(folder / "python")
    go = shutil.which("go")
    if go is None:
        sys.stderr.write(
            "no Go toolchain: its SDK's server and client, and an OpenID provider are not built\n"
        )
    elif not (folder / "go" / "provider").exists():
        (folder / "go").mkdir(parents=True, exist_ok=True)
        out = [go, "build", "-o", f"{folder / 'go'}/"]
        subprocess.run([*out, ".", GO_SERVER], cwd=GO, check=True)
        subprocess.run([*out, "."], cwd=GO_PROVIDER, check=True)


if __name__ == "__main__":
    main()
