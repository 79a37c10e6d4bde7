"""The bill of materials of a package, in CycloneDX: what it holds, and what its set-up installs, each with its licence."""

import json
import os
import re
import tomllib
import uuid
from datetime import UTC, datetime
from typing import Any, Final

from installer.build import torch_pin
from installer.packaging.wheel_cache import RUNTIME_SHA256, RUNTIME_VERSION
from installer.places import ROOT
from installer.uvtool import PINNED

LICENCES: Final = os.path.join(ROOT, "installer", "packaging", "licences.toml")
_LOCK: Final = os.path.join(ROOT, "installer", "requirements.lock")
_PIN: Final = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)([^\\]*)\\?$")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_SPACE: Final = uuid.UUID("5b7c0f1e-6f0c-5d0e-9d0a-6a1f4c0b7a11")


def locked() -> list[tuple[str, str, list[str]]]:
    """(name, version, SHA-256 of its files) of every package that a set-up installs, PyTorch without hashes."""
    found: list[tuple[str, str, list[str]]] = [("torch", torch_pin().removeprefix("PyTorch "), [])]
    with open(_LOCK, encoding="utf-8") as file:
        for line in file:
            if match := _PIN.match(line.strip()):
                found.append((match[1], match[2], []))
            elif hashed := _HASH.search(line):
                found[-1][2].append(hashed[1])
    return sorted(found)


def licences() -> dict[str, dict[str, str]]:
    """Part of the table -> name -> SPDX expression: "packages", "bundled" for what lies inside every package, and
    "appimage" for what lies inside an AppImage as well.
    """
    with open(LICENCES, "rb") as file:
        return tomllib.load(file)


def _component(name: str, version: str, licence: str, kind: str = "library") -> dict[str, Any]:
    return {"type": kind, "name": name, "version": version, "licenses": [{"expression": licence}]}


def written(version: str, epoch: int, target: str, kind: str, runtime: str = "") -> bytes:
    """The bill as JSON, equal to the byte for equal inputs. target: the platform of the package; kind: of the package; runtime:
    as in `Release`. Raises KeyError for a package without a licence in the table.
    """
    known = licences()
    parts = [_component("uv", PINNED, known["bundled"]["uv"], "application") | {"scope": "required"}]
    parts += [_component(name, "", known["bundled"][name], "file") for name in sorted(known["bundled"]) if name != "uv"]
    if kind == "appimage":
        number, licence = "" if runtime else RUNTIME_VERSION, known["appimage"]["AppImage runtime"]
        start = _component("AppImage runtime", number, licence, "application")
        parts.append(start | {"hashes": [{"alg": "SHA-256", "content": runtime or RUNTIME_SHA256}]})
    for name, number, _ in locked():
        parts.append(
            _component(name, number, known["packages"][name])
            | {"scope": "required", "purl": f"pkg:pypi/{name.lower()}@{number}", "bom-ref": f"pkg:pypi/{name.lower()}@{number}"}
        )
    own = _component("halftone", version, "Apache-2.0", "application") | {"bom-ref": f"halftone@{version}"}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_SPACE, f'{version} {epoch} {target} {kind}')}",
        "version": 1,
        "metadata": {"timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(), "component": own},
        "components": [{name: value for name, value in part.items() if value} for part in parts],
    }
    return (json.dumps(bill, indent=1, sort_keys=True) + "\n").encode()
