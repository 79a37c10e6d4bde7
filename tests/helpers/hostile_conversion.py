"""Hostile code inside the confined process, past all that looks at a file: it tries each way out, and writes what came of it.

It runs as the process of a conversion; the file at its standard input says what it needs. With "free" in it nothing is
confined, which shows that the ways are real.
"""

import ctypes
import fcntl
import json
import mmap
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

from halftone.worker.confined import process

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PTRACE_ATTACH: Final = 16
_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_STAT_AT: Final = 79 if os.uname().machine == "aarch64" else 262
_IO_URING, _BPF, _SHMGET, _VM_WRITE, _MEMFD, _UNSHARE, _PIDFD = (
    (425, 280, 194, 271, 279, 97, 434) if os.uname().machine == "aarch64" else (425, 321, 29, 311, 319, 272, 434)
)


def _call(number: int, *arguments: int | None) -> int:
    result: int = _LIBC.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _look(descriptor: int, path: pathlib.Path) -> None:
    """With the flag of calls for an open file, which does not keep the path from being read."""
    kept = ctypes.create_string_buffer(256)
    _ran(_LIBC.syscall(_STAT_AT, descriptor, bytes(path), kept, _AT_EMPTY_PATH))


def _ran(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _fork() -> None:
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _shell() -> None:
    if (status := _LIBC.system(b"true")) != 0:
        raise ChildProcessError(f"status {status}")


def _thread() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def _secret() -> None:
    found = [name for name in os.environ if "TOKEN" in name or name == "HOME"]
    if not found:
        raise KeyError("HF_TOKEN")


def _connect(family: int, kind: int, address: Any) -> None:
    with socket.socket(family, kind) as made:
        made.settimeout(2)
        made.connect(address) if kind == socket.SOCK_STREAM else made.sendto(b"x", address)


def _raise_limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def ways(files: Mapping[str, str], parent: int, output: int) -> dict[str, Callable[[], object]]:
    """Name -> what tries it. files: `source`, `folder` with a file `secret`, `port` and `socket` of listeners; output: its
    descriptor.
    """
    source, folder = files["source"], pathlib.Path(files["folder"])
    inner = pathlib.Path("/proc/self/fd")
    return {
        "read a file": (folder / "secret").read_bytes,
        "read by a path with ..": (folder / "made" / ".." / "secret").read_bytes,
        "learn about a file": lambda: _look(_AT_FDCWD, folder / "secret"),
        "learn about a file beside a descriptor": lambda: _look(0, folder / "secret"),
        "list a folder": lambda: os.listdir(folder),
        "write a new file": lambda: (folder / "new").write_bytes(b"x"),
        "write into the source": lambda: pathlib.Path(source).open("r+b").close(),
        "write to the source's descriptor": lambda: os.write(0, b"x"),
        "open the source's descriptor for writing": lambda: (inner / "0").open("r+b").close(),
        "open the output's descriptor again": lambda: (inner / str(output)).open("r+b").close(),
        "cut the source": lambda: os.truncate(source, 1),
        "remove the source": lambda: os.remove(source),
        "rename the source": lambda: os.rename(source, folder / "renamed"),
        "change the source's rights": lambda: os.chmod(source, 0o777),
        "change the rights of its descriptor": lambda: os.fchmod(0, 0o777),
        "change its owner": lambda: os.fchown(0, os.getuid(), os.getgid()),
        "change its times": lambda: os.utime(0, (1, 1)),
        "set an attribute of it": lambda: os.setxattr(0, "user.evil", b"x"),
        "lock it": lambda: fcntl.flock(0, fcntl.LOCK_EX | fcntl.LOCK_NB),
        "make a symbolic link": lambda: os.symlink("/etc", folder / "link"),
        "make a hard link": lambda: os.link(source, folder / "hard"),
        "make a folder": lambda: os.mkdir(folder / "sub"),
        "make a named pipe": lambda: os.mkfifo(folder / "pipe"),
        "remove a tree": lambda: shutil.rmtree(folder),
        "change the folder": lambda: os.chdir(folder),
        "write more than it may": lambda: os.pwrite(output, b"x", 2**42),
        "connect by TCP": lambda: _connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(files["port"]))),
        "send by UDP": lambda: _connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", int(files["port"]))),
        "connect to a Unix socket": lambda: _connect(socket.AF_UNIX, socket.SOCK_STREAM, files["socket"]),
        "listen": lambda: socket.create_server(("127.0.0.1", 0)).close(),
        "fork": _fork,
        "start a program": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        "run a shell": _shell,
        "become another program": lambda: os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(3)"]),
        "start a thread": _thread,
        "signal the parent": lambda: os.kill(parent, 0),
        "signal every process": lambda: os.kill(-1, signal.SIGCONT),
        "let a descriptor signal the parent": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, parent),
        "trace the parent": lambda: _ran(_LIBC.ptrace(_PTRACE_ATTACH, parent, None, None)),
        "write into the parent's memory": lambda: _call(_VM_WRITE, parent, None, 0, None, 0, 0),
        "open the parent's memory": lambda: pathlib.Path(f"/proc/{parent}/mem").open("r+b").close(),
        "get hold of the parent": lambda: os.close(_call(_PIDFD, parent, 0)),
        "type into the terminal": lambda: fcntl.ioctl(2, termios.TIOCSTI, b"x"),
        "use 64 GB of memory": lambda: mmap.mmap(-1, 2**36),
        "make executable memory": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC),
        "make memory shared by name": lambda: os.close(_call(_MEMFD, ctypes.addressof(ctypes.create_string_buffer(b"x")), 0)),
        "share memory with others": lambda: _call(_SHMGET, 7, 4096, 0o1666),
        "load a library": lambda: ctypes.CDLL(files["library"]),
        "raise its limits": _raise_limit,
        "gain rights in a namespace": lambda: _call(_UNSHARE, 0x10000000),
        "queue calls past the filter": lambda: _call(_IO_URING, 1, None),
        "load code into the kernel": lambda: _call(_BPF, 0, None, 0),
        "change its user": lambda: os.setresuid(65534, 65534, 65534),
        "read a password or token": _secret,
    }


def _try(way: Callable[[], object]) -> str:
    try:
        way()
    except BaseException as error:  # noqa: BLE001 - whatever keeps it in is the answer
        return f"{type(error).__name__}: {error}"[:80]
    return "escaped"


def _prepare() -> process.Work:
    if json.loads(os.pread(0, 2**16, 0)).get("free"):
        process.confine = lambda *_arguments: frozenset()
    return _attack


def _attack(
    source: BinaryIO, _size: int, output: BinaryIO, _progress: Callable[[int, int], object]
) -> tuple[int, dict[str, int]]:
    source.seek(0)
    files = json.loads(source.read())
    chosen = files.get("ways")
    tried = {
        name: _try(way) for name, way in ways(files, files["parent"], output.fileno()).items() if not chosen or name in chosen
    }
    header = json.dumps({"__metadata__": tried, "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
    output.write(len(header).to_bytes(8, "little") + header + b"\0")
    output.flush()
    return 1, {}


if __name__ == "__main__":
    raise SystemExit(process.main(_prepare, int(sys.argv[1]), int(sys.argv[2])))
