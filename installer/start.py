"""What happens on every start: find the environment in a few milliseconds and become the program in it."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType

from installer import places, versions

HELP = ("--help", "-h")
OWN_COMMANDS = (
    ("setup", "build the environment again, even if the present one is good"),
    ("ready", "build the environment if there is none yet, and open nothing"),
    ("test", "run every gate and test; further words go to pytest"),
    ("python", "the environment's own Python, for example: python -m pytest tests/unit"),
    ("shortcut", "add Halftone to the Linux applications menu"),
)
QT_COMMANDS = ("gui", "test")
SOURCE_COMMANDS = ("test", "shortcut")
"""Only in the sources."""

# Inherited settings that would make the environment's Python look for its library or its packages somewhere else.
FOREIGN = {
    "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONEXECUTABLE", "PYTHONUSERBASE", "PYTHONPLATLIBDIR", "PYTHONSAFEPATH",
    "PYTHONCASEOK", "PYTHONINSPECT", "PYTHONOPTIMIZE", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT",
    "PYENV_VERSION", "PIPENV_ACTIVE", "POETRY_ACTIVE",
}  # fmt: skip
FOREIGN_PREFIXES = ("CONDA_", "_CONDA_", "_CE_", "MAMBA_")


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment a child gets: without other Pythons' settings, in UTF-8, without the user's own site-packages."""
    kept = {name: value for name, value in environ.items() if name not in FOREIGN and not name.startswith(FOREIGN_PREFIXES)}
    return {**kept, "PYTHONNOUSERSITE": "1", "PYTHONUTF8": "1"}


def hold(env: str) -> None:
    """Mark the environment as in use for as long as this process, or on POSIX the program it becomes, lives.

    A later set-up then leaves it in place instead of deleting it under an open window. See `guard.in_use`.
    """
    try:
        descriptor = os.open(os.path.join(env, places.IN_USE), os.O_RDONLY)
        if sys.platform != "win32":  # There, a file that is open cannot be renamed, which is mark enough.
            import fcntl

            os.set_inheritable(descriptor, True)
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return  # A folder without locks still runs Halftone; only the later clean-up is less careful.


def as_typed(launcher: str) -> str:
    """How the person called the launcher, so that hints show a command that works here."""
    return f"{'py' if sys.platform == 'win32' else 'python3'} {quoted(launcher)}"


def quoted(path: str) -> str:
    """A path as one word of the shell of this system."""
    if sys.platform != "win32":
        return shlex.quote(path)
    import subprocess

    return subprocess.list2cmdline([path])


def called(launcher: str) -> str:
    """The command for hints. Packages have a name of their own for it."""
    starter = os.environ.get("HALFTONE_STARTER")
    return quoted(starter) if starter else as_typed(launcher)


def found_in_place(env: str, root: str = places.ROOT) -> dict[str, str]:
    """Where an environment outside the program's folder finds the code: a package may lie elsewhere at each start."""
    inside = os.path.realpath(env).startswith(os.path.join(os.path.realpath(root), ""))
    return {} if inside else {"PYTHONPATH": os.path.join(root, "app")}


def become(env: str, words: list[str], environ: Mapping[str, str]) -> int:
    """Run `halftone <words>`, or the environment's own Python.

    On POSIX this process turns into it, so signals and the exit status need no forwarding.
    """
    python = places.python_in(env)
    # -P: a file called torch.py in the folder the user happens to stand in must not be imported.
    command = [python, *words[1:]] if words[:1] == ["python"] else [python, "-P", "-m", "halftone", *words]
    return turn_into(command, {**environ, "HALFTONE_COMMAND": called(sys.argv[0]), **found_in_place(env)})


def turn_into(command: list[str], environ: Mapping[str, str]) -> int:
    if sys.platform != "win32":
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(command[0], command, environ)
    import subprocess

    with subprocess.Popen(command, env=environ, creationflags=places.window_flags()) as child:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:
                continue  # The console sent it to the program too, which decides what to do with it.


def own_commands() -> tuple[tuple[str, str], ...]:
    """Packages have no tests, and bring a menu entry themselves."""
    return OWN_COMMANDS if not places.is_packaged() else tuple(one for one in OWN_COMMANDS if one[0] not in SOURCE_COMMANDS)


def tell_own_commands() -> None:
    """The launcher's part of the help; the program, which knows nothing of it, tells the rest."""
    lines = "".join(f"   {name:<10}{told}\n" for name, told in own_commands())
    sys.stdout.write(f"\n Commands of the launcher; without any, the window opens:\n{lines}\n")


def find_ready(want: places.Wanted, environ: Mapping[str, str]) -> str | None:
    homes = places.homes(environ)
    found = next((env for home in homes if (env := places.ready(home, want))), None)
    if found is None and places.is_packaged():  # Versions with other packages keep their environments beside the current one.
        found = next((env for home in homes if os.path.isdir(home) for env in versions.environments(home, want)), None)
    return found


def pass_on(words: Sequence[str]) -> int | None:
    """Start the newer version that an update brought; None where this one is to start."""
    choice = versions.choose(places.ROOT, os.environ)
    if choice.damaged:
        what = f"version {os.path.basename(choice.path)}" if choice.path else "the package's own version"
        sys.stderr.write(f"An update is damaged ({choice.damaged}); Halftone starts {what}: update again.\n")
        os.environ[versions.DAMAGED] = choice.damaged  # for the window: from a menu nobody reads the line
    if not choice.path:
        return None
    launcher = os.path.join(choice.path, "installer", "launch.py")
    return turn_into([sys.executable or "python3", launcher, *words], {**os.environ, versions.PACKAGE: places.ROOT})


def one_sentence(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    """What Python calls in place of printing a traceback."""
    if isinstance(error, KeyboardInterrupt):
        return  # Ctrl-C is nobody's mistake; Python still ends with the status that says so.
    from installer.desk import report_mistake

    report_mistake(error)


def start(words: Sequence[str]) -> int:
    sys.excepthook = one_sentence
    if (code := pass_on(words)) is not None:
        return code
    words = list(words) or ["gui"]
    command = words[0]
    if command in ("setup", "ready", "shortcut") and any(word in HELP for word in words[1:]):
        sys.stdout.write(f"python3 installer/launch.py {command}: {dict(OWN_COMMANDS)[command]}. It takes no options.\n")
        return 0
    if command in SOURCE_COMMANDS and places.is_packaged():
        sys.stderr.write(f"Halftone's “{command}” is part of its sources and not of this package; nothing was changed.\n")
        return 2
    want = places.wanted(dev=command == "test")
    env = None if command == "setup" else find_ready(want, os.environ)
    if command in HELP:
        tell_own_commands()
        if env is None:
            sys.stdout.write("Halftone's own commands are listed here once it is set up.\n")
            return 0
    quick = env is not None and (command not in QT_COMMANDS or os.path.exists(os.path.join(env, "qt-ok")))
    if command == "ready" and env is not None:
        return 0
    if os.environ.get(versions.PACKAGE):
        hold(places.ROOT)  # An update leaves the version of an open window in its place.
    if command == "update" and (env is None or any(word.partition("=")[0] == "--from" for word in words)):
        # The program would only add the place of its settings, and an environment that is broken cannot do that either.
        from installer.updates.command import main

        return main(words[1:])
    if env is not None and quick and command not in ("test", "shortcut"):
        hold(env)
        return become(env, words, clean(os.environ))
    from installer.desk import serve

    return serve(words, env, want)
