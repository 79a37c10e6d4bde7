"""What README and CONTRIBUTING say is what the program does."""

import re
import tomllib
from pathlib import Path

from installer.folders import CPU_SIZE, GB, GPU_SIZE

ROOT = Path(__file__).resolve().parents[2]
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_the_readme_asks_for_the_room_that_the_set_up_asks_for() -> None:
    assert f"{CPU_SIZE.disk / GB:.0f} GB of free disk, or {GPU_SIZE.disk / GB:.0f} GB with an NVIDIA or AMD card" in README
    assert f"({CPU_SIZE.download / GB:.1f} GB or {GPU_SIZE.download / GB:.1f} GB to download)" in README


def test_the_floors_of_the_map_are_those_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(one["layers"] for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    checked = {name.strip(): number for number, layer in enumerate(reversed(layers), 1) for name in layer.split("|")}
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: int(number) for number, name in rows} == checked
