"""The folders of eight programs are found as each of them makes its own."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from halftone.library.index.programs import extra_model_paths, find_programs, hub_cache, program_at


def folders(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir(parents=True, exist_ok=True)


def files(root: Path, **contents: str) -> None:
    for name, content in contents.items():
        (root / name.replace("__", ".")).write_text(content, encoding="utf-8")


def a1111(root: Path) -> set[str]:
    folders(
        root,
        "models/Stable-diffusion",
        "models/Lora",
        "models/VAE",
        "embeddings",
        "extensions-builtin",
        "elsewhere/my checkpoints",
    )
    files(
        root,
        webui__py="",
        launch__py="",
        **{"webui-user__sh": "export COMMANDLINE_ARGS=\"--xformers --ckpt-dir 'elsewhere/my checkpoints'\""},
    )
    return {"models", "embeddings", "elsewhere/my checkpoints"}


def forge(root: Path) -> set[str]:
    folders(root, "models/Stable-diffusion", "models/text_encoder", "models/diffusers", "embeddings", "modules_forge")
    files(root, webui__py="")
    return {"models", "embeddings"}


def comfy(root: Path) -> set[str]:
    folders(root, "comfy", "custom_nodes", "models/checkpoints", "models/loras", "shared/sd/ckpt", "shared/sd/l1", "shared/sd/l2")
    text = "a111:\n  base_path: shared/sd\n  checkpoints: ckpt\n  loras: |\n    l1\n    l2\n  vae: missing\n  is_default: true\n"
    files(root, main__py="", extra_model_paths__yaml=text)
    return {"models", "shared/sd/ckpt", "shared/sd/l1", "shared/sd/l2"}


def stability_matrix(root: Path) -> set[str]:
    folders(root, "Data/Models/StableDiffusion", "Data/Models/Lora", "Data/Packages")
    return {"Data/Models"}


def fooocus(root: Path) -> set[str]:
    folders(root, "models/checkpoints", "models/loras", "presets", "sdxl_styles", "wildcards", "mine", "other")
    files(
        root,
        fooocus_version__py="",
        config__txt='{"path_checkpoints": ["mine", "models/checkpoints"], "path_loras": "other", "path_outputs": "wildcards"}',
    )
    return {"models", "mine", "models/checkpoints", "other"}


def invoke(root: Path) -> set[str]:
    folders(root, "models", "databases", "outputs", "outside/diffusers")
    files(root, invokeai__yaml="schema_version: 4.0.2\n")
    file = root / "outside" / "a.safetensors"
    with sqlite3.connect(root / "databases" / "invokeai.db") as database:
        database.execute("CREATE TABLE models (id TEXT, path TEXT)")
        database.executemany(
            "INSERT INTO models VALUES (?, ?)", [("1", str(file)), ("2", "sdxl/main/x"), ("3", str(root / "outside/diffusers"))]
        )
    database.close()
    return {"models", "outside", "outside/diffusers"}


def swarm(root: Path) -> set[str]:
    folders(root, "Models/Stable-Diffusion", "Data", "src", "Disk")
    files(root / "Data", Settings__fds="#Paths\nPaths:\n\t#Root path for models.\n\tModelRoot: Models;Disk\n")
    return {"Models", "Disk"}


MAKERS: dict[str, Callable[[Path], set[str]]] = {
    "A1111": a1111,
    "Forge": forge,
    "ComfyUI": comfy,
    "StabilityMatrix": stability_matrix,
    "Fooocus": fooocus,
    "InvokeAI": invoke,
    "SwarmUI": swarm,
}


@pytest.mark.parametrize("program", MAKERS)
def test_a_program_is_known_with_all_its_folders(tmp_path: Path, program: str) -> None:
    root = tmp_path / "any name"
    wanted = MAKERS[program](root)
    found = program_at(root)
    assert found is not None
    assert found.program == program
    assert {Path(folder).relative_to(root).as_posix() for folder in found.folders} == wanted


def test_all_are_found_below_a_usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program, make in MAKERS.items():
        make(tmp_path / "home" / program)
    cache = tmp_path / "cache" / "hub"
    cache.mkdir(parents=True)
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    found = find_programs([tmp_path / "home", tmp_path / "home" / "ComfyUI"])
    assert sorted(install.program for install in found) == sorted([*MAKERS, "Hugging Face"])


def test_nothing_is_found_where_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders(tmp_path, "models", "Documents/models/checkpoints", "webui.py")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "none"))
    assert find_programs([tmp_path]) == ()


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [({"HF_HUB_CACHE": "/a"}, "/a"), ({"HF_HOME": "/b"}, "/b/hub"), ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub")],
)
def test_where_the_hub_cache_is(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: str) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert hub_cache() == Path(wanted)


@pytest.mark.parametrize(
    ("text", "defaults", "others"),
    [
        ("a:\n  base_path: sd\n  loras: l", [], ["sd/l"]),
        ("a:\n  loras: ../l/", [], ["../l"]),
        ("a:\n  base_path: $MINE/sd\n  vae: v", [], ["mine/sd/v"]),
        ("a:\n  base_path: ${MINE}\n  vae: v", [], ["mine/v"]),
        ("a:\n  base_path: ~/sd\n  vae: v", [], ["home/sd/v"]),
        ("a:\n  vae: $MINE/v", [], ["mine/v"]),
        ("a:\n  base_path: sd\n  loras: |\n    one\n\n    two/  # older\n", [], ["sd/one", "sd/two"]),
        ("a:\n  base_path: sd\n  is_default: true\n  loras: l\nb:\n  vae: v\nc:", ["sd/l"], ["v"]),
        ("a:\n  custom_nodes: c\n  configs: d\n  ipadapter: i\n  number: 3\n  list: [x]", [], ["i"]),
    ],
)
def test_further_paths_of_comfyui(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, defaults: list[str], others: list[str]
) -> None:
    monkeypatch.setenv("MINE", str(tmp_path / "mine"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    files(tmp_path, paths__yaml=text)
    wanted = tuple([(tmp_path / name).resolve() for name in names] for names in (defaults, others))
    assert extra_model_paths(tmp_path / "paths.yaml") == wanted


def test_yaml_that_unfolds_or_never_ends_is_refused(tmp_path: Path) -> None:
    bomb = "a0: &a0 {vae: v}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60))
    for text in (bomb, "[" * 5000, "a:\n  vae: v\n" + "#" * 2**20):
        files(tmp_path, paths__yaml=text)
        assert extra_model_paths(tmp_path / "paths.yaml") == ([], [])


@pytest.mark.parametrize(
    "text", ["", "- a\n- b", "a: b", "a:\n  base_path: 3\n  loras: 4", "a: {", "a: !!python/object:x.y {}", "\x00"]
)
def test_a_strange_yaml_names_no_folder_and_harms_nothing(tmp_path: Path, text: str) -> None:
    files(tmp_path, paths__yaml=text)
    assert extra_model_paths(tmp_path / "paths.yaml") == ([], [])


HOSTILE = [
    "[" * 2**16, "{" * 2**16, "{a: " * 2**14, "[" * 2**15 + "]" * 2**15, "- " * 2**15, "? " * 2**15, "[a," * 2**14,
    "[\n" * 2**15, "!!timestamp never", "!!bool maybe", "!!int ''", "a: " + "1" + ":1" * 2000 + ".5",
]  # fmt: skip


def test_hostile_settings_are_left_out_at_once(tmp_path: Path) -> None:
    """In a process of its own: the loader in C ends the process where it is let go too deep."""
    for number, text in enumerate(HOSTILE):
        (tmp_path / str(number)).write_text(text, encoding="utf-8")
    code = (
        "import sys, time; from pathlib import Path; from halftone.library.index.programs import extra_model_paths as read\n"
        "for path in sys.argv[1:]:\n"
        "    begun = time.process_time()\n"
        "    print(read(Path(path)), time.process_time() - begun < 2, flush=True)"
    )
    names = [str(tmp_path / str(number)) for number in range(len(HOSTILE))]
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "([], []) True\n" * len(HOSTILE)), done.stderr
