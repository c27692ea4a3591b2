"""Images of containers, written without a container engine: archives as ``ctr images import`` reads them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PIECE = 1 << 20


def write_image(archive: Path, name: str, config: Mapping[str, Any], layers: Sequence[Path]) -> None:
    """Write the image of this name: ``layers`` are tar files, the later ones above the earlier ones."""
    digests = [_digest(layer) for layer in layers]
    described = {
        "architecture": "amd64",
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        "history": [{"created_by": layer.name} for layer in layers],
    }
    image = json.dumps(described).encode()
    file = f"{hashlib.sha256(image).hexdigest()}.json"
    manifest = [{"Config": file, "RepoTags": [name], "Layers": [f"{digest}.tar" for digest in digests]}]
    with tarfile.open(archive, "w") as tar:
        for layer, digest in zip(layers, digests, strict=True):
            if f"{digest}.tar" not in tar.getnames():
                tar.add(layer, arcname=f"{digest}.tar")
        for member, content in ((file, image), ("manifest.json", json.dumps(manifest).encode())):
            _add(tar, member, content)


def write_newer_image(archive: Path, name: str, base: Path, layer: Path) -> None:
    """Write an image of one more layer than that in another archive.

    It holds nothing of the layers below, so it can be loaded only where the other one is.
    """
    with tarfile.open(base) as tar:

        def read(member: str) -> Any:
            opened = tar.extractfile(member)
            assert opened is not None
            return json.load(opened)

        (below,) = read("manifest.json")
        described = read(below["Config"])
        layers = [(member.removesuffix(".tar"), tar.getmember(member).size) for member in below["Layers"]]
    layers.append((_digest(layer), layer.stat().st_size))
    described["rootfs"]["diff_ids"] = [f"sha256:{digest}" for digest, _ in layers]
    described["history"].append({"created_by": layer.name})
    image = json.dumps(described).encode()
    kind = "application/vnd.oci.image"
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "config": _described(f"{kind}.config.v1+json", hashlib.sha256(image).hexdigest(), len(image)),
            "layers": [_described(f"{kind}.layer.v1.tar", *one) for one in layers],
        }
    ).encode()
    at = _described(f"{kind}.manifest.v1+json", hashlib.sha256(manifest).hexdigest(), len(manifest))
    at["annotations"] = {"io.containerd.image.name": name}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [at]}).encode())
        for content in (image, manifest):
            _add(tar, f"blobs/sha256/{hashlib.sha256(content).hexdigest()}", content)
        tar.add(layer, arcname=f"blobs/sha256/{layers[-1][0]}")


def _described(kind: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}


def _add(tar: tarfile.TarFile, member: str, content: bytes) -> None:
    entry = tarfile.TarInfo(member)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _digest(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(_PIECE):
            found.update(piece)
    return found.hexdigest()
