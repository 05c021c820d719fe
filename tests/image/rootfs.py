"""The image without a container daemon: the Dockerfile's steps in root folders, by `chroot`.

Owns: making those folders and archives of them. Needs root, `debootstrap` and the registries of
apt, pip and npm. Debian trixie with its own Python stands in for the bases, which no registry of
packages has: everything after FROM is what the Dockerfile says.

    python -m tests.image.rootfs --target armory --name armory:0.1.0 --out armory.tar
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.image.dockerfile import Copy, Run, Stage, image_config, stages

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
SUITE = "trixie"
NODE = ("node@24", "npm@11")
BASES = 2
"""Raised when they are made otherwise: those that were kept are made anew."""
_PASSED_ON = (
    "PIP_",
    "UV_",
    "npm_config_",
    "http",
    "HTTP",
    "no_proxy",
    "NO_PROXY",
    "SSL_",
    "REQUESTS_",
)
_CA = Path("/etc/ssl/certs/ca-certificates.crt")


def cannot() -> str | None:
    """Why images cannot be made like this here; None where they can."""
    if os.geteuid() != 0:
        return "root is needed"
    missing = [
        name for name in ("debootstrap", "npm", "unshare", "setpriv") if not shutil.which(name)
    ]
    return f"not installed: {', '.join(missing)}" if missing else None


class Images:
    """Root folders of the Dockerfile's stages.

    Args:
        folder: where they are made; bases there are used again.
        dockerfile: read once.
    """

    def __init__(self, folder: Path, dockerfile: Path = DOCKERFILE) -> None:
        self.folder = folder
        self.stages = stages(dockerfile)
        self._made: dict[str, Path] = {}
        self._made_of = self._inputs()
        folder.mkdir(parents=True, exist_ok=True)

    def make(self, name: str) -> Path:
        """The root folder of a stage, made with every stage that it needs."""
        if name not in self._made:
            stage = self.stages[name]
            known = stage.base in self.stages
            self._made[name] = self._stage(stage) if known else self._stand_in(stage)
        return self._made[name]

    def _stage(self, stage: Stage) -> Path:
        root = self.folder / "stages" / stage.name
        stamp = root.with_suffix(".made-of")
        if stamp.exists() and stamp.read_text() == self._made_of:
            return root
        stamp.unlink(missing_ok=True)
        base = self.make(stage.base)
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        _say("cp", "-a", "--reflink=auto", str(base), str(root))
        for step in stage.steps:
            if isinstance(step, Run):
                self._run(root, step)
            else:
                self._copy(root, step)
        stamp.write_text(self._made_of)
        return root

    def config(self, name: str) -> dict[str, Any]:
        """The configuration of a stage's image."""
        return image_config(self.stages[name].config)

    def _inputs(self) -> str:
        """A hash of everything that the steps use, the configuration aside."""
        digest = hashlib.sha256(repr([s.steps for s in self.stages.values()]).encode())
        for stage in self.stages.values():
            for step in stage.steps:
                if isinstance(step, Copy) and step.stage is None:
                    for name in step.sources:
                        for path in sorted(_files(ROOT / name)):
                            digest.update(str(path.relative_to(ROOT)).encode())
                            digest.update(path.read_bytes())
        return digest.hexdigest()

    # -- bases -------------------------------------------------------------------------------

    def _stand_in(self, stage: Stage) -> Path:
        makers: Mapping[str, Callable[[Path], None]] = {"python": _debian, "node": _node}
        root = self.folder / "bases" / f"{stage.name}-{SUITE}-{BASES}"
        if not root.exists():
            unfinished = root.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            makers[stage.name](unfinished)
            unfinished.rename(root)
        return root

    # -- steps -------------------------------------------------------------------------------

    def _run(self, root: Path, step: Run) -> None:
        mounts = {"/proc": "mount -t proc proc", "/dev": "mount --rbind /dev"}
        for mount in step.mounts:
            source = self.make(mount.stage) / mount.source.lstrip("/")
            mounts[mount.target] = f"mount --bind {source}"
        lines: list[str] = []
        for target, command in mounts.items():
            place = root / target.lstrip("/")
            place.mkdir(parents=True, exist_ok=True)
            lines.append(f"{command} {place}")
        resolver = (root / "etc/resolv.conf").read_bytes() if _is(root, "etc/resolv.conf") else b""
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        shutil.copy(_CA, root / "tmp/ca.crt")
        env = {
            **{name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)},
            "PATH": "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
            "PIP_CERT": "/tmp/ca.crt",
            "SSL_CERT_FILE": "/tmp/ca.crt",
            "PIP_ROOT_USER_ACTION": "ignore",
            "DEBIAN_FRONTEND": "noninteractive",
            **step.env,
        }
        inside = f"cd {step.folder} && {step.command}"
        command = ["chroot", str(root), "sh", "-ec", inside]
        script = "set -e; " + "; ".join(lines) + '; exec "$@"'
        try:
            _say("unshare", "-m", "sh", "-c", script, "sh", *command, env=env)
        finally:
            (root / "tmp/ca.crt").unlink()
            (root / "etc/resolv.conf").write_bytes(resolver)
            for mount in step.mounts:
                (root / mount.target.lstrip("/")).rmdir()

    def _copy(self, root: Path, step: Copy) -> None:
        origin = self.make(step.stage) if step.stage is not None else ROOT
        target = root / os.path.join(step.folder, step.target).lstrip("/")
        folder = step.target.endswith("/") or len(step.sources) > 1 or step.target == "."
        for name in step.sources:
            source = origin / name.lstrip("/")
            place = target / source.name if folder else target
            place.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, place, symlinks=True, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copy2(source, place)


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [path for path in place.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def _debian(root: Path) -> None:
    """Debian with its Python where the official image has one."""
    found = ""
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        if path.is_file():
            found += path.read_text()
    urls = re.findall(r"^(?:URIs: *|deb +(?:\[[^\]]*\] +)?)(https?://\S+)", found, re.MULTILINE)
    mirrors = [url for url in urls if "security" not in url and "debian" in url] or [
        "http://deb.debian.org/debian"
    ]
    packages = "python3,python3-pip,ca-certificates"
    _say("debootstrap", "--variant=minbase", f"--include={packages}", SUITE, str(root), mirrors[0])
    for path in (root / "usr/lib").glob("python3*/EXTERNALLY-MANAGED"):
        path.unlink()
    for name in ("python", "pip"):
        (root / "usr/local/bin" / name).symlink_to(f"/usr/bin/{name}3")
    for path in (root / "var/cache/apt/archives").glob("*.deb"):
        path.unlink()


def _node(root: Path) -> None:
    """Node.js and npm, from npm's registry, where the official image has them."""
    work = root / "work"
    _say("npm", "install", "--prefix", str(work), "--no-audit", "--no-fund", "--silent", *NODE)
    (root / "usr/local/bin").mkdir(parents=True)
    (root / "usr/local/lib/node_modules").mkdir(parents=True)
    shutil.copy2(work / "node_modules/node/bin/node", root / "usr/local/bin/node")
    licences = [*work.glob("node_modules/**/node-linux-*/LICENSE")]
    shutil.copy2(licences[0], root / "usr/local/LICENSE")
    (work / "node_modules/npm").rename(root / "usr/local/lib/node_modules/npm")
    shutil.rmtree(work)


def _is(root: Path, name: str) -> bool:
    return (root / name).is_file()


def _say(*command: str, env: Mapping[str, str] | None = None) -> None:
    """Run a command; what it printed is shown where it fails."""
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = done.stdout.decode(errors="replace")[-4_000:]
        raise RuntimeError(f"{' '.join(command)[:300]} ended with {done.returncode}:\n{said}")


def archive(root: Path, config: Mapping[str, Any], name: str, out: Path) -> None:
    """Write an image archive of one layer, as `ctr images import` and `docker load` read it."""
    layer = out.with_suffix(".layer")
    skipped = [f"--exclude=./{place}/*" for place in ("proc", "sys", "dev")]
    _say("tar", "--numeric-owner", *skipped, "-C", str(root), "-cf", str(layer), ".")
    with layer.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    image = {
        "architecture": machine,
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "deploy/Dockerfile"}],
    }
    described = json.dumps(image).encode()
    own = f"{hashlib.sha256(described).hexdigest()}.json"
    repository, _, tag = name.rpartition(":")
    full = name if "/" in repository else f"docker.io/library/{repository}:{tag}"
    manifest = [{"Config": own, "RepoTags": [full], "Layers": ["layer.tar"]}]
    with tarfile.open(out, "w") as tar:
        for file, content in ((own, described), ("manifest.json", json.dumps(manifest).encode())):
            info = tarfile.TarInfo(file)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        tar.add(layer, "layer.tar")
    layer.unlink()


def main() -> None:
    """Make one image."""
    parser = argparse.ArgumentParser(description="Make an image without a container daemon.")
    parser.add_argument("--target", default="armory", help="the Dockerfile's stage")
    parser.add_argument("--name", default="armory:0.1.0", help="repository:tag")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/armory-images"))
    parser.add_argument("--out", type=Path, required=True, help="the archive")
    given = parser.parse_args()
    if (why := cannot()) is not None:
        sys.exit(why)
    images = Images(given.folder)
    root = images.make(given.target)
    archive(root, images.config(given.target), given.name, given.out)
    sys.stdout.write(f"{given.name}: {given.out.stat().st_size >> 20} MiB in {given.out}\n")


if __name__ == "__main__":
    main()
