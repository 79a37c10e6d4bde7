"""The launcher's decisions as tables: settings translated, environments cleaned, refusals worded."""

import ast
import io
import os
import re
from pathlib import Path

import pytest
from installer import build, folders, launch, pipconfig, places, runner, shortcut, start, systemlibs, uvtool, words
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(places.ROOT)

CONFIGS: list[tuple[str, str, dict[str, str], list[str]]] = [
    ("nothing configured", "", {}, []),
    (
        "an index of one's own",
        "[global]\nindex-url = https://me:pw@one.example/simple\n",
        {},
        ["--default-index", "https://me:pw@one.example/simple"],
    ),
    (
        "further indexes are all looked at, as pip does",
        "[global]\nextra-index-url = https://a.example/s https://b.example/s\n",
        {},
        ["--index", "https://a.example/s", "--index", "https://b.example/s", "--index-strategy", "unsafe-best-match"],
    ),
    (
        "[install] wins over [global]",
        "[install]\nindex-url = https://i.example\n[global]\nindex-url = https://g.example\n",
        {},
        ["--default-index", "https://i.example"],
    ),
    (
        "a variable wins over the file",
        "[global]\nindex-url = https://g.example\n",
        {"PIP_INDEX_URL": "https://v.example"},
        ["--default-index", "https://v.example"],
    ),
    (
        "underscores are as good as dashes",
        "[global]\nindex_url = https://u.example\n",
        {},
        ["--default-index", "https://u.example"],
    ),
    ("what uv was told stands", "[global]\nindex-url = https://g.example\n", {"UV_DEFAULT_INDEX": "https://uv.example"}, []),
    ("a local index that is not there is skipped", "[global]\nextra-index-url = file:///nowhere/simple\n", {}, []),
    ("remote wheel pages", "[global]\nfind-links = https://w.example/whl\n", {}, ["--find-links", "https://w.example/whl"]),
    ("no index at all", "[global]\nno-index = true\n", {}, ["--no-index"]),
    (
        "trusted hosts",
        "[global]\ntrusted-host =\n    a.example\n    b.example:81\n",
        {},
        ["--allow-insecure-host", "a.example", "--allow-insecure-host", "b.example:81"],
    ),
    ("a broken file is passed over", "index-url = no section\n", {}, []),
]


@pytest.mark.parametrize(("text", "environ", "expected"), [row[1:] for row in CONFIGS], ids=[row[0] for row in CONFIGS])
def test_pip_settings_become_uv_words(tmp_path: Path, text: str, environ: dict[str, str], expected: list[str]) -> None:
    path = tmp_path / "pip.conf"
    path.write_text(text, encoding="utf-8")
    assert list(pipconfig.uv_words(environ, [str(path)]).words) == expected


def test_wheel_folders_keep_their_spaces_and_join_those_of_uv(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "my whëels", tmp_path / "theirs"
    mine.mkdir()
    theirs.mkdir()
    environ = {"PIP_FIND_LINKS": str(mine), "UV_FIND_LINKS": str(theirs)}
    assert list(pipconfig.uv_words(environ, []).words) == ["--find-links", str(theirs), "--find-links", str(mine)]
    both = {"PIP_FIND_LINKS": f"{theirs} {tmp_path / 'gone'}"}
    assert list(pipconfig.uv_words(both, []).words) == ["--find-links", str(theirs)]


def test_certificate_proxy_and_timeout_travel_as_variables(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("", encoding="ascii")
    environ = {
        "PIP_CERT": str(bundle),
        "PIP_PROXY": "http://proxy.example:3128",
        "PIP_TIMEOUT": "99",
        "https_proxy": "http://own.example",
    }
    assert pipconfig.uv_words(environ, []).environ == {
        "SSL_CERT_FILE": str(bundle),
        "UV_HTTP_TIMEOUT": "99",
        "HTTP_PROXY": "http://proxy.example:3128",
    }


def test_pip_files_are_looked_for_where_pip_does() -> None:
    home = {"HOME": "/home/ü"}
    assert pipconfig.config_files(home, "linux", "/p") == [
        "/etc/xdg/pip/pip.conf", "/etc/pip.conf", "/home/ü/.pip/pip.conf", "/home/ü/.config/pip/pip.conf", "/p/pip.conf",
    ]  # fmt: skip
    assert "/home/ü/Library/Application Support/pip/pip.conf" in pipconfig.config_files(home, "darwin", "/p")
    assert pipconfig.config_files({**home, "PIP_CONFIG_FILE": os.devnull}, "linux", "/p") == []
    assert pipconfig.config_files({**home, "PIP_CONFIG_FILE": "/x.conf"}, "linux", "/p")[-1] == "/x.conf"


def test_foreign_pythons_leave_no_trace_in_the_environment() -> None:
    foreign = {"PYTHONHOME": "/x", "PYTHONPATH": "/y", "VIRTUAL_ENV": "/z", "CONDA_PREFIX": "/c", "CONDA_SHLVL": "2", "_CE_M": ""}
    assert start.clean({**foreign, "HOME": "/home/ü", "LANG": "C"}) == {
        "HOME": "/home/ü",
        "LANG": "C",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUTF8": "1",
    }


def test_uv_keeps_its_network_settings_and_loses_those_that_divert_packages(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "UV_FIND_LINKS": "/w", "UV_HTTP_TIMEOUT": "9", "UV_TARGET": "/t", "UV_SYSTEM_PYTHON": "1"}
    kept = build.uv_environ(environ, pipconfig.UvWords((), {"SSL_CERT_FILE": "/ca"}), str(tmp_path))
    assert kept == {
        "HOME": str(tmp_path),
        "UV_FIND_LINKS": "/w",
        "UV_HTTP_TIMEOUT": "9",
        "SSL_CERT_FILE": "/ca",
        "UV_NO_PROGRESS": "1",
    }
    diverted = uvtool.pip_environ({"PIP_TARGET": "/t", "PIP_USER": "1", "PIP_INDEX_URL": "https://i.example"})
    assert "PIP_TARGET" not in diverted
    assert (diverted["PIP_USER"], diverted["PIP_INDEX_URL"]) == ("0", "https://i.example")


def test_the_plan_names_the_locked_files_and_falls_back_to_the_configured_index() -> None:
    site = build.Site("/uv", "/h/env-0", True, pipconfig.UvWords(("--find-links", "/w ü"), {}))
    venv, torch, rest, dev = build.plan(site, "/usr/bin/python3")
    assert venv.argv == ("/uv", "venv", "--relocatable", "--no-project", "--python", "/usr/bin/python3", "/h/env-0")
    assert "--torch-backend=auto" in torch.argv
    assert torch.probe[-1] == "--dry-run"
    assert torch.otherwise is not None
    assert not any(word.startswith("--torch-backend") for word in torch.otherwise.argv)
    assert all(step.argv[5:7] == ("--find-links", "/w ü") for step in (torch, torch.otherwise, rest, dev))
    assert (rest.argv[-1], dev.argv[-1]) == ("requirements.lock", "requirements-dev.lock")
    assert all((ROOT / "installer").samefile(step.cwd or "") for step in (torch, torch.otherwise, rest, dev))
    assert len(build.plan(site._replace(dev=False), "/usr/bin/python3")) == 3
    offline = build.torch_step(site._replace(sources=pipconfig.UvWords(("--no-index",), {})))
    assert offline.otherwise is None


@pytest.mark.parametrize(
    ("version", "wide", "expected"),
    [
        ((3, 11), True, "/py"),
        ((3, 12), True, "/py"),
        ((3, 14), True, "/py"),
        ((3, 15), True, build.PYTHON_RANGE),
        ((3, 12), False, build.PYTHON_RANGE),
    ],
)
def test_a_python_without_ready_made_packages_is_passed_over(version: tuple[int, int], wide: bool, expected: str) -> None:
    assert build.python_choice(version, wide, "/py") == expected


@pytest.mark.parametrize(
    ("system", "machine", "libc", "said"),
    [
        ("Linux", "x86_64", ("glibc", "2.36"), None),
        ("Linux", "x86_64", ("glibc", "2.31"), "glibc 2.34"),
        ("Linux", "aarch64", ("glibc", "2.36"), "glibc 2.39"),
        ("Darwin", "x86_64", ("", ""), "Apple silicon"),
        ("Darwin", "arm64", ("", ""), None),
        ("Windows", "AMD64", ("", ""), None),
    ],
)
def test_systems_without_any_build_are_refused_before_a_download(
    system: str, machine: str, libc: tuple[str, str], said: str | None
) -> None:
    problem = build.hopeless(system, machine, libc)
    assert problem is None if said is None else (problem is not None and said in problem)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("apt", "sudo apt install libegl1 libxcb-cursor0"),
        ("dnf", "sudo dnf install libglvnd-egl xcb-util-cursor"),
        ("pacman", "sudo pacman -S --needed libglvnd xcb-util-cursor"),
        ("zypper", "sudo zypper install libglvnd libxcb-cursor0"),
    ],
)
def test_missing_libraries_become_one_command(name: str, line: str) -> None:
    lacking = systemlibs.missing(
        {**systemlibs.BASE, **systemlibs.X11}, lambda soname: soname not in ("libEGL.so.1", "libxcb-cursor.so.0")
    )
    assert systemlibs.command(name, systemlibs.packages(lacking, name)) == line


def test_a_system_without_a_known_package_manager_still_hears_what_is_missing() -> None:
    assert systemlibs.manager(lambda _program: None) is None
    assert systemlibs.command(None, ["libEGL.so.1"]).endswith("libEGL.so.1")


@pytest.mark.parametrize(
    ("lacking", "window", "environ", "fine"),
    [
        ([], True, {}, True),
        (["libEGL.so.1"], False, {}, False),
        (["libxcb-cursor.so.0"], False, {}, True),
        (["libxcb-cursor.so.0"], True, {"DISPLAY": ":0"}, False),
        (["libxcb-cursor.so.0"], True, {"WAYLAND_DISPLAY": "wayland-0"}, True),
        (["libxcb-cursor.so.0", "libEGL.so.1"], True, {"WAYLAND_DISPLAY": "wayland-0"}, False),
    ],
)
def test_which_libraries_may_be_missing(lacking: list[str], window: bool, environ: dict[str, str], fine: bool) -> None:
    assert systemlibs.tolerable(lacking, window, environ) is fine


def test_too_little_disk_says_how_much_and_what_to_do() -> None:
    assert folders.lacks_space(4e9, 3e9, "/h") is None
    sentence = folders.lacks_space(1.25e9, 12e9, "/h/ü")
    assert sentence is not None
    assert "12 GB" in sentence
    assert "1.2 GB" in sentence
    assert "HALFTONE_HOME" in sentence
    with pytest.raises(words.LaunchError, match="needs 1000000 GB"):
        folders.choose_home([str(ROOT / ".halftone")], 1e15)


def test_windows_paths_that_would_grow_too_long_are_refused() -> None:
    assert folders.path_too_long("C:\\" + "x" * 120, "win32", True) is None
    assert folders.path_too_long("C:\\Halftone\\.halftone", "win32", False) is None
    assert "110 characters" not in (sentence := folders.path_too_long("C:\\" + "x" * 120, "win32", False) or "")
    assert "123 characters, 109 fit" in sentence
    assert folders.path_too_long("/" + "x" * 200, "linux", False) is None


def test_a_folder_that_cannot_hold_an_environment_is_refused_by_trying(tmp_path: Path) -> None:
    good = tmp_path / "a folder with ü"
    assert folders.try_folder(str(good)) is None
    assert os.listdir(good) == []
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="ascii")
    assert folders.try_folder(str(blocked / "home")) == "cannot be written to"
    with pytest.raises(words.LaunchError, match="cannot be written to, so it cannot hold"):
        folders.choose_home([str(blocked / "home")], 0)
    assert folders.choose_home([str(blocked / "home"), str(good)], 0) == str(good)


OUTPUTS = [
    ("error: Failed to fetch: `…`\n  cause: dns error", "could not be reached"),
    ("error: failed to write: No space left on device (os error 28)", "not enough space on the disk"),
    ("  cause: invalid peer certificate: UnknownIssuer", "certificate"),
    ("HTTP status client error (401 Unauthorized)", "refused"),
    ("error: Hash mismatch for `x`", "not the locked one"),
    ("error: can't find Rust compiler; cargo not installed", "could not be compiled"),
    ("no wheels with a matching platform tag (e.g., `manylinux_2_28_x86_64`)", "no build for this system"),
    ("error: No interpreter found for Python >=3.11, <3.13", "no Python that fits"),
    ("gibberish", "a step of the set-up failed"),
]


@pytest.mark.parametrize(("output", "happened"), OUTPUTS, ids=[row[1] for row in OUTPUTS])
def test_a_failed_step_says_what_happened_what_was_kept_and_what_to_do(output: str, happened: str) -> None:
    for had_one, kept in ((True, "is untouched"), (False, "nothing half-finished was kept")):
        sentence = str(words.set_up_failed("PyTorch", output, had_one))
        assert happened in sentence
        assert kept in sentence
        assert sentence.endswith(".")
        assert "\n" not in sentence


def test_passwords_do_not_reach_the_log() -> None:
    assert words.without_secrets("--index https://me:se-cret@i.example/simple") == "--index https://***@i.example/simple"
    assert (
        words.without_secrets("--default-index https://token@i.example/simple") == "--default-index https://***@i.example/simple"
    )
    assert words.without_secrets("https://i.example:8080/simple") == "https://i.example:8080/simple"


def test_a_console_that_cannot_show_a_path_does_not_end_the_set_up(tmp_path: Path) -> None:
    console = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with words.open_log(str(tmp_path)) as log:
        words.Reporter(log, console).line("in /home/jürgen …")
    assert (tmp_path / "launch.log").read_text(encoding="utf-8").endswith("in /home/jürgen …\n")
    console.seek(0)
    assert console.read() == "in /home/j?rgen ?\n"


def test_a_log_past_its_limit_starts_anew_and_keeps_one(tmp_path: Path) -> None:
    (tmp_path / "launch.log").write_text("x" * (words.LOG_LIMIT + 1), encoding="ascii")
    with words.open_log(str(tmp_path)) as log:
        log.write("new")
    assert (tmp_path / "launch.log").read_text(encoding="ascii") == "new"
    assert (tmp_path / "launch.log.1").stat().st_size > words.LOG_LIMIT


@pytest.mark.parametrize(
    ("output", "version"),
    [("uv 0.13.8 (x86_64-unknown-linux-gnu)", (0, 13, 8)), ("uv 0.9.0", (0, 9, 0)), ("uvx 1.2.3", ()), ("", ())],
)
def test_uv_says_its_version(output: str, version: tuple[int, ...]) -> None:
    assert uvtool.version_of(output) == version


def test_the_entry_file_parses_on_old_pythons() -> None:
    source = (ROOT / "installer" / "launch.py").read_text(encoding="utf-8")
    assert ast.parse(source, feature_version=(3, 6)).body, "no SyntaxError"


def test_an_old_python_is_told_which_is_needed() -> None:
    assert launch.needs_newer((3, 10))
    assert not launch.needs_newer((3, 11))
    sentence = launch.too_old((3, 8), "/usr/bin/python3")
    assert "needs Python 3.11 or newer, but /usr/bin/python3 is 3.8" in sentence
    assert launch.newer_python("") is None


def test_module_folders_of_other_pythons_are_not_searched() -> None:
    assert launch.forget_foreign_modules(["/clone/installer", "/junk", "/usr/lib/python3"], f"/junk{os.pathsep}") == [
        "/clone/installer",
        "/usr/lib/python3",
    ]


def test_where_the_environment_lives() -> None:
    assert places.homes({"HOME": "/u"}, "/clone", "linux")[0] == os.path.join("/clone", ".halftone")
    assert places.homes({"HOME": "/u"}, "/clone", "linux")[1].startswith("/u/.local/share/halftone-launcher/")
    assert places.homes({"HOME": "/u"}, "/clone", "linux")[1] != places.homes({"HOME": "/u"}, "/other", "linux")[1]
    assert places.homes({"HALFTONE_HOME": "/elsewhere"}, "/clone", "linux") == ["/elsewhere"]


def test_the_menu_entry_quotes_what_its_format_would_misread(tmp_path: Path) -> None:
    root = '/home/jürgen/50% "off" $HOME `x` \\'
    path = shortcut.add({"XDG_DATA_HOME": str(tmp_path)}, root, "linux")
    text = Path(path).read_text(encoding="utf-8")
    # Undo both layers as a desktop does: the value's escapes, then the argument's.
    value = re.search(r'^Exec="(.*)"$', text, re.MULTILINE)
    assert value is not None
    argument = re.sub(r'\\(["`$\\])', r"\1", value[1].replace("\\\\", "\\")).replace("%%", "%")
    assert argument == root + "/installer/halftone.sh"
    with pytest.raises(words.LaunchError, match="Linux only"):
        shortcut.add({}, root, "darwin")


def locked(name: str) -> dict[str, set[Version]]:
    """Package name to versions (several when markers choose)."""
    found: dict[str, set[Version]] = {}
    for line in (ROOT / "installer" / name).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([a-z0-9-]+)==([^ ;\\]+)", line):
            found.setdefault(match[1], set()).add(Version(match[2]))
    return found


def test_the_locks_hold_all_that_the_project_asks_for() -> None:
    """When this fails, run the two commands at the heads of the lock files."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    runtime = {**locked("requirements.lock"), **locked("torch.txt")}
    dev = locked("requirements-dev.lock")
    asked = [(Requirement(text), runtime) for text in project["project"]["dependencies"]]
    asked += [(Requirement(text), dev) for text in project["dependency-groups"]["dev"]]
    for requirement, lock in asked:
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert lock.get(name), f"{name} is not locked"
        assert all(version in requirement.specifier for version in lock[name]), f"{requirement} against {lock[name]}"
    assert "torch" not in locked("requirements.lock")
    for name in dev.keys() & runtime.keys():
        assert dev[name] <= runtime[name], f"{name} is locked to different versions"


def test_signals_of_a_closed_terminal_become_an_orderly_stop() -> None:
    import signal

    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        runner.stop_on_signals()
        with pytest.raises(runner.StoppedError):
            signal.raise_signal(signal.SIGTERM)
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
