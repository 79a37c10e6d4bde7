"""Asks the command `halftone` what a model file does in half precision, and says it in lines of text.

Only the standard library is used, nothing runs at import, and every call has a time limit.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess

NOT_FOUND = (
    "Halftone was not found. Install it, or write the path of its command into the file command.txt in this extension's folder; "
    "README.md there lists the paths. The environment variable HALFTONE works too."
)
COMMAND = os.path.join(os.path.dirname(os.path.abspath(__file__)), "command.txt")
_OF_PYTHON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class NoAnswerError(Exception):
    """There is no result. The message says why and what to do."""


def command_of():
    """The words of the command: of the variable HALFTONE, of the file COMMAND, or `halftone` on the PATH. Raises NoAnswerError.

    It is no input of a node or a page: those come with workflows of strangers and over the network, and could run anything.
    """
    written = os.environ.get("HALFTONE", "").strip() or _written() or "halftone"
    words = [written] if os.path.exists(written) else [word.strip('"') for word in shlex.split(written, posix=os.name == "posix")]
    found = shutil.which(words[0])
    if found is None:
        raise NoAnswerError(NOT_FOUND)
    return [found, *words[1:]]


def _written():
    """The first line of the file COMMAND; "" where there is none."""
    try:
        with open(COMMAND, encoding="utf-8-sig") as file:
            return file.readline().strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise NoAnswerError(f"The file {COMMAND} cannot be read: {error}. Write it again.") from error


def check(path, program, *, device="auto", seconds=900):
    """The object that `halftone check --export --json` prints. program: "comfyui" or "a1111". Raises NoAnswerError."""
    words = [*command_of(), "check", os.path.abspath(path), "--export", program, "--json"]
    words += [] if device == "auto" else ["--device", device]
    own = {name: value for name, value in os.environ.items() if name not in _OF_PYTHON}
    hidden = {"creationflags": subprocess.CREATE_NO_WINDOW} if os.name == "nt" else {"start_new_session": True}
    try:
        running = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own, **hidden
        )
    except OSError as error:
        raise NoAnswerError(f"Halftone could not be started: {error.strerror or error}.") from error
    try:
        out, err = running.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise NoAnswerError(f"The check took longer than {seconds:g} seconds and was stopped. Allow more time.") from None
    finally:
        _end(running)
    try:
        answer = json.loads(out)
    except ValueError:
        last = err.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise NoAnswerError(f"Halftone gave no result. {' '.join(last)}".strip()) from None
    if "error" in answer:
        raise NoAnswerError(f"{answer['error']['message']} {answer['error']['remedy']}")
    if "export" not in answer:
        raise NoAnswerError("This version of Halftone is too old for this check. Update it.")
    return answer


def _end(running):
    """End the command and what it started, if they still run."""
    if running.poll() is not None:
        return
    if os.name == "nt":
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(running.pid)], capture_output=True, check=False)
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    running.communicate()


VERDICTS = {
    "healthy": "healthy in {0}: no layer overflows",
    "tight": "fine in {0}, with little headroom in some layers",
    "fixable": "overflows in {0}",
    "broken": "broken: no cure helps",
}


def text_of(answer):
    """The result as lines: the verdict, what was found, what to set."""
    name = os.path.basename(answer["model"]["path"])
    lines = [f"{name}: {VERDICTS[answer['verdict']].format(answer['precision'])}"]
    serious = [one for one in answer["findings"] if one["code"] != "tight"]
    lines += [f"- {one['message']}" for one in serious]
    for one in answer["export"]["settings"]:
        instead = f"  (or {one['instead']})" if one["instead"] else ""
        lines.append(f"{one['app']}, {one['where']} ({', '.join(one['parts'])}): {one['value']}{instead}")
    lines += answer["export"]["notes"]
    if answer["export"]["rescale"]:
        path, program = shlex.quote(answer["model"]["path"]), answer["export"]["program"]
        lines.append(f"Or write a repaired file: halftone check {path} --export {program} --output NAME")
    return "\n".join(lines)


def report(path, program, **options):
    """The lines of a check, or why there is no result."""
    try:
        return text_of(check(path, program, **options))
    except NoAnswerError as error:
        return str(error)
