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


def test_the_readme_names_the_test_that_ci_runs() -> None:
    runs = [line for line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines() if line.startswith("python3 ")]
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert [f"{line}\n" for line in runs] == [block for block in blocks if "launch.py test" in block]


def test_what_the_readme_links_to_is_there() -> None:
    for address in re.findall(r"\]\(([^)\s]+)\)", README):
        assert (ROOT / address).exists(), address


def test_the_figures_of_the_readme_are_those_of_the_changelog() -> None:
    changelog = " ".join((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split())
    for pair in re.findall(r"\d+ of \d+", README):
        assert pair in changelog, pair


def test_the_floors_of_the_map_are_those_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(one["layers"] for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    checked = {name.strip(): number for number, layer in enumerate(reversed(layers), 1) for name in layer.split("|")}
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: int(number) for number, name in rows} == checked
