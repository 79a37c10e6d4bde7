"""Builds an environment beside the one in use, proves it, and only then makes it current."""

import json
import os
import platform
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from installer import folders, guard, places, runner, uvtool
from installer.pipconfig import UvWords, uv_words
from installer.places import ROOT, Stamp, Wanted
from installer.runner import Step
from installer.verify import NO_CODE
from installer.words import LaunchError, Reporter

HERE = os.path.join(ROOT, "installer")
# Named without their folder, with that as the working folder: uv before 0.13 splits these words at spaces.
TORCH, LOCK, DEV_LOCK = "torch.txt", "requirements.lock", "requirements-dev.lock"
# The Pythons for which every locked package has a ready-made build. PyTorch and Qt publish them up to 3.14.
OLDEST, NEWEST = (3, 11), (3, 14)
PYTHON_RANGE = ">=3.11,<3.15"
# Builds to try when the chosen one holds no code for the card: CUDA 12.6 is the last for GTX 10 and older; the CPU always works.
OLDER_BUILDS = ("cu126", "cpu")

# uv's settings about networks, indexes and caches are the person's; all others could send the packages elsewhere.
UV_KEPT = (
    "UV_FIND_LINKS", "UV_INDEX", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_HTTP", "UV_REQUEST", "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS", "UV_CACHE_DIR", "UV_NO_CACHE", "UV_OFFLINE", "UV_TORCH_BACKEND", "UV_AMD_GPU", "UV_CUDA_DRIVER",
    "UV_KEYRING", "UV_INSECURE_HOST",
    "UV_LINK_MODE", "UV_CONFIG_FILE", "UV_NO_CONFIG", "UV_PYTHON_INSTALL", "UV_PYTHON_DOWNLOADS", "UV_PYPY", "UV_CONCURRENT",
)  # fmt: skip


class Recipe(NamedTuple):
    """How an environment comes to be: commands that fill the folder `env`, one that proves it, and those to try when the device
    refuses what was installed, each followed by the proof again."""

    env: str
    steps: Sequence[Step]
    proof: Sequence[str]
    remedies: Sequence[Step]
    environ: Mapping[str, str]


class Site(NamedTuple):
    """Everything the steps depend on; made once, so that the steps themselves are plain data."""

    uv: str
    env: str
    dev: bool
    sources: UvWords
    backend: str = "auto"


def python_choice(version: tuple[int, int], wide: bool, executable: str) -> str:
    """This interpreter when all packages exist for it, else a range for uv, which searches the machine and may fetch one."""
    return executable if OLDEST <= version <= NEWEST and wide else PYTHON_RANGE


def hopeless(system: str, machine: str, libc: tuple[str, str]) -> str | None:
    """Systems that the pinned PyTorch or Qt exist for in no version, said before anything is downloaded."""
    if system == "Darwin" and machine == "x86_64":
        return (
            "Halftone needs PyTorch, which is no longer made for Macs with Intel processors; nothing was changed: "
            "use a Mac with Apple silicon, Windows or Linux."
        )
    if system == "Linux" and libc[0] == "glibc":
        needed = (2, 34) if machine == "x86_64" else (2, 39)  # What PySide6's builds ask for.
        if tuple(int(part) for part in re.findall(r"\d+", libc[1])[:2]) < needed:
            return (
                f"Halftone's window needs glibc {needed[0]}.{needed[1]} and this Linux has {libc[1]}; nothing was changed: "
                "update the system, for example to the current Debian, Ubuntu LTS or Fedora, and start again."
            )
    return None


def uv_environ(environ: Mapping[str, str], sources: UvWords, home: str) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if not name.startswith("UV_") or name.startswith(UV_KEPT)}
    if "UV_CACHE_DIR" not in kept and other_device(home, environ):
        # Packages are hard links into the cache, which works on one disk only; on another, each would lie there twice.
        kept["UV_CACHE_DIR"] = os.path.join(home, "cache")
    return {**kept, **sources.environ, "UV_NO_PROGRESS": "1"}


def other_device(home: str, environ: Mapping[str, str]) -> bool:
    user = environ.get("LOCALAPPDATA") or environ.get("HOME") or os.path.expanduser("~")
    try:
        return os.stat(user).st_dev != os.stat(home).st_dev
    except OSError:
        return True


def install(site: Site, *wanted: str) -> tuple[str, ...]:
    return (site.uv, "pip", "install", "--python", places.python_in(site.env), *site.sources.words, *wanted)


def torch_step(site: Site) -> Step:
    """PyTorch comes first, with its own dependencies, as these differ between builds; the rest of the lock then finds it."""
    version, wanted = torch_pin(), ("-r", TORCH, "-c", LOCK)
    general = install(site, *wanted)
    # For Linux the general index holds the CUDA build only, whatever the machine.
    remarks = {"nvidia-": "(with NVIDIA's libraries: about 3 GB to download)"}
    quick = {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "15", "UV_HTTP_CONNECT_TIMEOUT": "5"}
    last = Step(f"{version} from the configured package index", general, {}, (*general, "--dry-run"), quick, None, HERE, remarks)
    if "--no-index" in site.sources.words:
        return last
    own = install(site, f"--torch-backend={site.backend}", *wanted)
    return Step(f"{version} from PyTorch's own index", own, {}, (*own, "--dry-run"), quick, last, HERE, remarks)


def remedies(site: Site) -> list[Step]:
    """Other PyTorch builds, for a card that the chosen one holds no code for."""
    steps = [torch_step(site._replace(backend=backend)) for backend in OLDER_BUILDS]
    return [
        Step(f"the {backend} build", (*step.argv, "--reinstall-package", "torch"), cwd=HERE)
        for backend, step in zip(OLDER_BUILDS, steps, strict=True)
    ]


def torch_pin() -> str:
    with open(os.path.join(HERE, TORCH), encoding="utf-8") as file:
        pin = next(line.strip() for line in file if line.startswith("torch=="))
    return "PyTorch " + pin.removeprefix("torch==")


def plan(site: Site, python: str) -> list[Step]:
    """The whole set-up as data. --no-deps: the lock is complete, and PyTorch's own dependencies are already there."""
    steps = [
        Step("A Python environment", (site.uv, "venv", "--relocatable", "--no-project", "--python", python, site.env)),
        torch_step(site),
        Step("Halftone's other packages", install(site, "--no-deps", "-r", LOCK), cwd=HERE),
    ]
    if site.dev:
        steps.append(Step("Development tools", install(site, "--no-deps", "-r", DEV_LOCK), cwd=HERE))
    return steps


def site_packages(env: str) -> str:
    if sys.platform == "win32":
        return os.path.join(env, "Lib", "site-packages")
    library = os.path.join(env, "lib")
    return os.path.join(library, next(name for name in os.listdir(library) if name.startswith("python3")), "site-packages")


def pth_line(packages: str, app: str, root: str) -> str:
    """Makes Halftone's code importable in place. Relative when the environment lies in the clone, so both can be moved together;
    else as ASCII-only code, because Pythons before 3.13 read this file in the system's code page."""
    if os.path.commonpath([packages, root]) == root and os.path.relpath(app, packages).isascii():
        return os.path.relpath(app, packages) + "\n"
    return f"import sys; {app!a} in sys.path or sys.path.append({app!a})\n"


def connect(env: str, root: str = ROOT) -> None:
    packages = site_packages(env)
    with open(os.path.join(packages, "halftone-in-place.pth"), "w", encoding="ascii") as file:
        file.write(pth_line(os.path.realpath(packages), os.path.join(os.path.realpath(root), "app"), os.path.realpath(root)))
    with open(os.path.join(env, places.IN_USE), "w", encoding="ascii"):
        pass


def facts(output: str) -> dict[str, str]:
    """The JSON line among whatever else an import printed."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return {name: str(value) for name, value in json.loads(line).items()}
    return {}


def prove(recipe: Recipe, reporter: Reporter, had_one: bool) -> dict[str, str]:
    """Verify; when the device refuses the installed build, try the remedies before giving up."""
    number = len(recipe.steps) + 1
    reporter.begin(f"[{number}/{number}] Checking it: imports, and a computation on the device")
    outcome = runner.run(recipe.proof, recipe.environ, reporter, limit=600)
    for step in recipe.remedies:
        if outcome.code != NO_CODE:
            break
        reporter.end()
        reporter.begin(f"The device cannot use this build; trying {step.title}")
        if runner.run(step.argv, recipe.environ, reporter, cwd=step.cwd).code == 0:
            outcome = runner.run(recipe.proof, recipe.environ, reporter, limit=600)
    reporter.end()
    if outcome.code == 0:
        return facts(outcome.output)
    last = (outcome.output.strip().splitlines() or ["it ended without a word"])[-1]
    kept = "the environment you had is untouched" if had_one else "it was removed again"
    windows = " and Microsoft's Visual C++ runtime" if sys.platform == "win32" else ""
    raise LaunchError(
        f"The new environment did not pass its check ({last}); {kept}: "
        f"update the graphics card's driver{windows}, and start again."
    )


def base_python(env: str) -> str:
    """The interpreter under an environment, whose removal would break it."""
    python = places.python_in(env)
    if os.name != "nt":
        return os.path.realpath(python)
    asked = subprocess.run(
        [python, "-I", "-c", "import sys; print(sys._base_executable)"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or python


def recipe(home: str, want: Wanted, environ: Mapping[str, str], reporter: Reporter) -> Recipe:
    """The real one, for this machine. Fetches uv when there is none."""
    sources = uv_words(environ)
    uv = uvtool.find(home, environ, reporter)
    env = os.path.join(home, f"env-{uuid.uuid4().hex[:8]}")
    site = Site(uv, env, bool(want.dev), sources, environ.get("UV_TORCH_BACKEND", "auto"))
    python = python_choice(sys.version_info[:2], sys.maxsize > 2**32, sys.executable)
    proof = (places.python_in(env), "-I", os.path.join(HERE, "verify.py"))
    return Recipe(env, plan(site, python), proof, remedies(site), uv_environ(environ, sources, home))


def build(home: str, want: Wanted, made: Recipe, reporter: Reporter) -> str:
    """A new, proven, current environment. With the lock held; on any failure what was there before is untouched."""
    had_one = places.current(home) is not None
    try:
        runner.run_steps(made.steps, made.environ, reporter, had_one)
        connect(made.env)
        known = prove(made, reporter, had_one)
        torch, device = known.get("torch", ""), known.get("device", "")
        places.write_stamp(made.env, Stamp(want.runtime, want.dev, base_python(made.env), torch, device))
        places.make_current(home, made.env)
    finally:
        # Failed or stopped: nothing half-finished stays. Done: the predecessor goes, unless a window still runs from it.
        guard.sweep(home, places.current(home))
    reporter.line(f"PyTorch {torch} will compute on: {known.get('name', '')}")
    if known.get("note"):
        reporter.line(f"In a first try {known['note']}. Halftone measures what the device can do and takes what works there.")
    if device == "cpu" and folders.graphics_card():
        reporter.line("This machine seems to have a graphics card, but the installed PyTorch build cannot use it.")
    return made.env


def build_once(home: str, want: Wanted, reporter: Reporter, make: Callable[[], Recipe], again: bool) -> str:
    """Wait for our turn, and build unless another launcher just did."""
    with guard.only_one(home, reporter):
        guard.sweep(home, places.current(home))
        done = None if again else places.ready(home, want)
        return done or build(home, want, make(), reporter)


def set_up(want: Wanted, environ: Mapping[str, str], reporter: Reporter, homes: Sequence[str], again: bool) -> str:
    """Choose a folder that can hold the environment, and build it there."""
    if problem := hopeless(platform.system(), platform.machine(), platform.libc_ver()):
        raise LaunchError(problem)
    size = folders.GPU_SIZE if folders.graphics_card() else folders.CPU_SIZE
    home = folders.choose_home(list(homes), size.disk)
    reporter.line(f"Setting up Halftone, once: about {size.download / folders.GB:.1f} GB to download, into {home}")
    return build_once(home, want, reporter, lambda: recipe(home, want, environ, reporter), again)
