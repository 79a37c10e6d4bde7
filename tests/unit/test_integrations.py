"""The node for ComfyUI and the extension for A1111, against stand-ins of what these programs give them."""

import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from tests.helpers import samples

from halftone.cli.models.export import export_object
from halftone.cli.reports.chosen_precision import ChosenPrecision
from halftone.cli.reports.json_objects import check_object, finite
from halftone.contract.vocabulary import OtherProgram
from halftone.contract.wording import Words, spelled_out
from halftone.health.other_programs import export
from halftone.settings.places import resources

FOLDER = resources() / "integrations" / "halftone_check"


def load(path: Path, name: str) -> Any:
    """As both programs do it."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def stand_in(name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(content)
    return module


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No command from outside, nothing written beside the files, and the modules as they were."""
    monkeypatch.setenv("HALFTONE", "")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if "halftone_c" in name or name == "node":
            del sys.modules[name]


@pytest.fixture
def caller() -> Any:
    return load(FOLDER / "halftone_caller.py", "halftone_caller")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "my model.safetensors"
    path.write_bytes(b"")
    return path


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes a command that keeps its words and answers, and names it in the variable HALFTONE."""

    def write(answer: object, code: int = 1, *, last: str = "") -> str:
        script = tmp_path / "halftone.py"
        text = answer if isinstance(answer, str) else json.dumps(answer)
        lines = (
            "import pathlib, sys, time",
            f"pathlib.Path({str(tmp_path / 'words')!r}).write_text('\\n'.join(sys.argv[1:]))",
            f"print({text!r})",
            last,
            f"sys.exit({code})",
        )
        script.write_text("\n".join(lines))
        words = f'"{sys.executable}" "{script}"'
        monkeypatch.setenv("HALFTONE", words)
        return words

    return write


def answer(program: OtherProgram = "comfyui") -> dict[str, Any]:
    """What `halftone check --export --json` prints."""
    report = samples.check_report(fragile=True)
    report = replace(report, model=replace(report.model, family="SDXL", path="pocket"))
    content = check_object(
        report, ChosenPrecision("float16", Words("{0}, your setting.", ("FP16",)), measured=False), layers=False
    )
    content["export"] = export_object(export(report, program))
    return json.loads(json.dumps(finite(spelled_out(content))))


def test_the_finding_and_the_settings_are_shown(caller: Any) -> None:
    assert caller.text_of(answer()).splitlines() == [
        "pocket: overflows in float16",
        f"- {answer()['findings'][0]['message']}",
        "ComfyUI, Launch options (VAE decoder): --fp32-vae",
        "Or write a repaired file: halftone check pocket --export comfyui --output NAME",
    ]


def test_the_command_is_asked_about_the_file(caller: Any, command: Callable[..., str], model: Path, tmp_path: Path) -> None:
    command(answer("a1111"))
    said = caller.report(str(model), "a1111", device="cpu")
    assert "A1111, Launch options (VAE decoder): --no-half-vae" in said.splitlines()
    words = (tmp_path / "words").read_text().splitlines()
    assert words == ["check", str(model), "--export", "a1111", "--json", "--device", "cpu"]


@pytest.mark.parametrize(
    ("answer", "last", "said"),
    [
        ({"error": {"message": "It is no model.", "remedy": "Choose one."}}, "", "It is no model. Choose one."),
        ("", "sys.stderr.write('first\\nNo PyTorch here.')", "Halftone gave no result. No PyTorch here."),
        ({"verdict": "healthy"}, "", "This version of Halftone is too old for this check. Update it."),
        ("", "sys.stdout.flush(); time.sleep(60)", "The check took longer than 0.5 seconds and was stopped. Allow more time."),
    ],
)
def test_a_failure_is_one_sentence(
    caller: Any, command: Callable[..., str], model: Path, answer: object, last: str, said: str
) -> None:
    seconds = 0.5 if "sleep" in last else 60
    command(answer, 2, last=last)
    assert caller.report(str(model), "comfyui", seconds=seconds) == said


def test_a_missing_halftone_is_said_with_what_to_do(caller: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert caller.report(str(model), "comfyui") == caller.NOT_FOUND
    monkeypatch.setenv("HALFTONE", sys.executable)
    assert caller.command_of() == [sys.executable]


def test_the_command_comes_from_a_file_beside_the_extension(
    caller: Any, command: Callable[..., str], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller, "COMMAND", str(tmp_path / "command.txt"))
    (tmp_path / "command.txt").write_text(command(answer()) + "\n")
    monkeypatch.setenv("HALFTONE", "")
    monkeypatch.setenv("PATH", "")
    assert "--fp32-vae" in caller.report(str(model), "comfyui")
    (tmp_path / "command.txt").write_bytes(b"\xff")
    assert caller.report(str(model), "comfyui").startswith(f"The file {tmp_path / 'command.txt'} cannot be read: ")


def test_no_workflow_and_no_page_names_the_command(node: Any, extension: Any) -> None:
    """A text from there would be run as a command of this machine."""
    options = {name: kind for group in node.HalftoneCheck.INPUT_TYPES().values() for name, (kind, *_) in group.items()}
    assert [name for name, kind in options.items() if not isinstance(kind, list) and kind != "INT"] == []
    (work,) = extension.tabs
    work()
    gradio = sys.modules["gradio"]
    assert [kind for kind, _ in gradio.made if kind in ("Textbox", "Dropdown", "Number")] == ["Dropdown", "Number", "Textbox"]
    ((check, given, _),) = gradio.clicked
    assert (list(inspect.signature(check).parameters), given) == (["device", "seconds"], 2)


def test_only_the_standard_library_is_needed() -> None:
    own = {"halftone_caller", "folder_paths", "gradio", "modules"}
    for path in FOLDER.rglob("*.py"):
        names = re.findall(r"^\s*(?:import|from) (\w+)", path.read_text(), re.MULTILINE)
        assert set(names) <= own | set(sys.stdlib_module_names), path


# --- ComfyUI ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def node(model: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the node, with a stand-in of ComfyUI's `folder_paths`."""

    def full_path(kind: str, name: str) -> str:
        if (kind, name) != ("checkpoints", model.name):
            raise FileNotFoundError(name)
        return str(model)

    paths = stand_in("folder_paths", get_filename_list=lambda kind: [model.name][: kind == "checkpoints"])
    vars(paths)["get_full_path_or_raise"] = full_path
    monkeypatch.setitem(sys.modules, "folder_paths", paths)
    return load(FOLDER / "__init__.py", "node")


def test_the_node_keeps_the_rules_of_nodes(node: Any, model: Path) -> None:
    assert node.NODE_CLASS_MAPPINGS.keys() == node.NODE_DISPLAY_NAME_MAPPINGS.keys()
    for kind in node.NODE_CLASS_MAPPINGS.values():
        inputs = kind.INPUT_TYPES()
        assert inputs["required"]["ckpt_name"][0] == [model.name]
        assert inputs.keys() <= {"required", "optional", "hidden"}
        options = {name: value for group in inputs.values() for name, value in group.items()}
        assert all(isinstance(kinds, list) or kinds in ("INT", "STRING") for kinds, _ in options.values())
        assert all("default" in more for _, more in inputs["optional"].values())
        assert len(kind.RETURN_TYPES) == len(kind.RETURN_NAMES)
        takes = inspect.signature(getattr(kind, kind.FUNCTION)).parameters
        assert takes.keys() - {"self"} == options.keys()
        assert inspect.signature(kind.IS_CHANGED).bind(**dict.fromkeys(options, ""))


def test_the_node_gives_the_text_to_the_window_and_to_other_nodes(
    node: Any, model: Path, command: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    command(answer())
    made = node.HalftoneCheck().check(model.name)
    (text,) = made["result"]
    assert made["ui"] == {"text": (text,)}
    assert "--fp32-vae" in text
    assert f"[Halftone] {text}" in capsys.readouterr().out


def test_the_node_runs_again_for_another_file_only(node: Any, model: Path) -> None:
    first = node.HalftoneCheck.IS_CHANGED(ckpt_name=model.name, device="auto", seconds=1)
    assert node.HalftoneCheck.IS_CHANGED(ckpt_name=model.name) == first
    model.write_bytes(b"other")
    assert node.HalftoneCheck.IS_CHANGED(ckpt_name=model.name) != first


# --- A1111, Forge, reForge -------------------------------------------------------------------------------------------


class Tab:
    """A stand-in of gradio, which keeps what is made of it."""

    def __init__(self) -> None:
        self.made: list[tuple[str, dict[str, Any]]] = []
        self.clicked: list[tuple[Callable[..., str], int, int]] = []

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        def make(*_values: Any, **options: Any) -> Any:
            self.made.append((kind, options))
            return self

        return make

    def __enter__(self) -> "Tab":
        return self

    def __exit__(self, *_error: object) -> None:
        return

    def click(self, work: Callable[..., str], inputs: list[Any], outputs: list[Any]) -> None:
        self.clicked.append((work, len(inputs), len(outputs)))


@pytest.fixture
def extension(model: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The loaded script, with stand-ins of A1111's modules; what it registered is in `tabs`."""
    tabs: list[Callable[[], Any]] = []
    callbacks = stand_in("modules.script_callbacks", on_ui_tabs=tabs.append)
    chosen = SimpleNamespace(select_checkpoint=lambda: SimpleNamespace(filename=str(model)))
    monkeypatch.setitem(sys.modules, "modules", stand_in("modules", script_callbacks=callbacks, sd_models=chosen))
    monkeypatch.setitem(sys.modules, "gradio", Tab())
    monkeypatch.syspath_prepend(str(FOLDER))  # A1111 adds the folder of an extension while it loads its scripts
    return SimpleNamespace(script=load(FOLDER / "scripts" / "halftone_check.py", "halftone_check.py"), tabs=tabs, models=chosen)


def test_the_extension_adds_a_tab(extension: Any) -> None:
    gradio = sys.modules["gradio"]
    assert gradio.made == [], "nothing is built before the page is"
    (work,) = extension.tabs
    ((_, title, element),) = work()
    assert (title, element) == ("Halftone", "halftone_check")
    ((check, given, taken),) = gradio.clicked
    assert (len(inspect.signature(check).parameters), given, taken) == (2, 2, 1)


def test_the_extension_checks_the_chosen_checkpoint(extension: Any, command: Callable[..., str]) -> None:
    command(answer("a1111"))
    assert "--no-half-vae" in extension.script.check("auto", 60.0)

    def none() -> None:
        raise FileNotFoundError

    extension.models.select_checkpoint = none
    assert extension.script.check("auto", 60.0) == "There is no checkpoint to check."
