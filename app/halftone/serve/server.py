"""The local interface over HTTP: on this machine only, with a token, and closed to pages in a browser."""

import base64
import contextlib
import hmac
import json
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from halftone.contract.errors import HalftoneError, say
from halftone.serve.control_units import UNITS
from halftone.serve.detecting import detected
from halftone.serve.interface import Interface, JobFailedError
from halftone.settings.atomic import write_atomically
from halftone.settings.places import data_dir
from halftone.settings.private import make_private

HOST: Final = "127.0.0.1"
PORT: Final = 7860
"""The port of A1111, which its clients propose."""
_NAMES: Final = ("127.0.0.1", "localhost")
"""What a client may call this machine: a page whose name leads here would use its own."""
_MOST: Final = 2**26
"""Bytes of a request."""
_LENGTH_DIGITS: Final = 18
_CONNECTIONS: Final = 64
"""Open at once; further ones are closed unread."""
_QUIET_SECONDS: Final = 30.0
"""A connection that says nothing for so long is closed."""
_POLL_SECONDS: Final = 0.05
"""How often the server looks whether it is to stop: the window waits for it."""
_API: Final = "/sdapi/v1/"
_CONTROLNET: Final = "/controlnet/"
_CONTROLNET_VERSION: Final = 3
"""Of the interface of A1111's extension."""
_EMPTY: Final = ("hypernetworks", "face-restorers", "realesrgan-models", "script-info", "extensions")
"""Lists of A1111 of which Halftone has nothing."""
_NOT_HERE: Final = ("model-missing", "model-unknown")

log = logging.getLogger(__name__)


def token() -> str:
    """The token of this user, made when it is first needed, in a file that others cannot read. Raises OSError."""
    path = _token_file()
    if path.is_file() and (known := path.read_text(encoding="ascii").strip()):
        return known
    return new_token()


def new_token() -> str:
    """Another token; the one before is no longer of use. Raises OSError."""
    made = secrets.token_urlsafe(24)
    path = _token_file()
    make_private(path)
    write_atomically(path, f"{made}\n".encode("ascii"))
    return made


def _token_file() -> Path:
    return data_dir() / "serve.token"


class Server:
    """Answers on threads of its own, from `start` until `stop`. port: 0 for any. Raises OSError for one in use."""

    def __init__(self, interface: Interface, secret: str, port: int = PORT) -> None:
        handler = type("Handler", (_Handler,), {"interface": interface, "secret": secret.encode()})
        self._http = _Threads((HOST, port), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(_POLL_SECONDS,), name="serve", daemon=True)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self._http.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Answer nothing more, on connections that are open either."""
        self._http.shutdown()
        self._http.server_close()
        self._http.end_connections()
        self._thread.join()


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = os.name == "posix"  # on Windows another program could take the port as well

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.stopped = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
            full = len(self._open) > _CONNECTIONS
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note in the log what ended a connection: mostly a client that is gone."""
        del request, client_address
        log.info("A connection of a script ended", exc_info=True)

    def end_connections(self) -> None:
        """Wake the threads that wait for a request; each closes its own connection."""
        self.stopped = True
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # the client has closed it
                    connection.shutdown(socket.SHUT_RDWR)


class _RefusedError(Exception):
    """An answer that is no result."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    interface: Interface
    secret: bytes
    protocol_version = "HTTP/1.1"
    server_version = "Halftone"
    sys_version = ""
    timeout = _QUIET_SECONDS

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_HEAD(self) -> None:
        self._answer(self._no_method)

    do_OPTIONS = do_PUT = do_PATCH = do_DELETE = do_TRACE = do_CONNECT = do_HEAD  # noqa: N815 - names of the base class

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is not HTTP, or of another method."""
        del explain
        self.request_version = self.protocol_version  # it may not be known yet, and an answer of HTTP 0.9 has no status
        known = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self._send(known, {"detail": message or known.phrase})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Note requests in the log, without what they hold."""
        log.info(format, *args)

    # --- routes -----------------------------------------------------------------------------------------------------

    def _no_method(self, _name: str) -> object:
        raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "Method Not Allowed")

    def _get(self, name: str) -> object:
        interface = self.interface
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # the body is not read, and would be taken for the next request
        routes: dict[str, Callable[[], object]] = {
            "progress": lambda: interface.progress(with_picture=not self._flag("skip_current_image")),
            "sd-models": interface.models,
            "samplers": interface.samplers,
            "schedulers": interface.schedulers,
            "loras": interface.loras,
            "embeddings": interface.embeddings,
            "options": interface.options,
            "prompt-styles": interface.styles,
            "memory": interface.memory,
            "upscalers": interface.upscalers,
            "latent-upscale-modes": interface.latent_upscalers,
            "sd-vae": interface.vaes,
            "cmd-flags": dict[str, object],
            f"{_CONTROLNET}version": lambda: {"version": _CONTROLNET_VERSION},
            f"{_CONTROLNET}settings": lambda: {"control_net_unit_count": UNITS},
            f"{_CONTROLNET}model_list": interface.control_models,
            f"{_CONTROLNET}module_list": interface.control_modules,
            "scripts": lambda: {"txt2img": [], "img2img": []},
            **dict.fromkeys(_EMPTY, list[object]),
        }
        return self._route(routes, name)

    def _post(self, name: str) -> object:
        interface, body = self.interface, self._body()
        routes: dict[str, Callable[[], object]] = {
            "txt2img": lambda: interface.text_to_image(body),
            "img2img": lambda: interface.image_to_image(body),
            "png-info": lambda: interface.picture_info(body),
            f"{_CONTROLNET}detect": lambda: detected(body),
            "interrupt": interface.interrupt,
            "skip": interface.skip,
            "options": lambda: interface.choose(body),
            "refresh-checkpoints": interface.refresh,
            "refresh-loras": interface.refresh,
            "refresh-vae": interface.refresh,
            "refresh-embeddings": interface.refresh,
        }
        return self._route(routes, name)

    def _route(self, routes: dict[str, Callable[[], object]], name: str) -> object:
        if name not in routes:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "Not Found")
        return routes[name]()

    def _flag(self, name: str) -> bool:
        return parse_qs(self.path.partition("?")[2]).get(name, [""])[-1].casefold() in ("true", "1")

    # --- one request ------------------------------------------------------------------------------------------------

    def _answer(self, work: Callable[[str], object]) -> None:
        try:
            self._let_in()
            path = self.path.partition("?")[0]
            self._send(HTTPStatus.OK, work(_name_of(path)))
        except _RefusedError as error:
            self._send(error.status, {"detail": str(error)})
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            self._send(HTTPStatus.UNPROCESSABLE_ENTITY, {"detail": str(error)})
        except RecursionError:
            self._send(HTTPStatus.UNPROCESSABLE_ENTITY, {"detail": "The JSON is nested too deeply."})
        except HalftoneError as error:
            status = HTTPStatus.NOT_FOUND if error.code in _NOT_HERE else HTTPStatus.UNPROCESSABLE_ENTITY
            self._send(status, _failure(error.code, say(error.as_facts())))
        except JobFailedError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, _failure("failed", str(error)))
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # nobody listens any more
        except Exception:
            log.exception("A request of a script failed")
            said = "Halftone could not answer. The log says why."
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, _failure("failed", said))

    def _let_in(self) -> None:
        """Raise _RefusedError after the stop, for pages in a browser, for other names of this machine, and without the token."""
        if isinstance(self.server, _Threads) and self.server.stopped:
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "The local interface is off.")
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host.casefold() not in _NAMES:
            raise _RefusedError(HTTPStatus.FORBIDDEN, "This interface is for programs on this machine.")
        if "Origin" in self.headers or self.headers.get("Sec-Fetch-Site", "none") != "none":
            raise _RefusedError(HTTPStatus.FORBIDDEN, "This interface is closed to pages in a browser.")
        if not hmac.compare_digest(_given(self.headers.get("Authorization", "")), self.secret):
            raise _RefusedError(HTTPStatus.UNAUTHORIZED, "Not authenticated")

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "").strip()
        if "Transfer-Encoding" in self.headers:
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED, "Send a Content-Length.")
        if not length:
            return b"{}"
        if not (length.isascii() and length.isdecimal()):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "The Content-Length is not a number.")
        if len(length) > _LENGTH_DIGITS or int(length) > _MOST:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A request may have {_MOST} bytes.")
        return self.rfile.read(int(length)) or b"{}"

    def _send(self, status: HTTPStatus, answer: object) -> None:
        data = json.dumps(answer).encode()
        if status != HTTPStatus.OK:
            self.close_connection = True  # what was not read of the request would be taken for the next one
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            if status == HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", 'Basic realm="Halftone"')
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)
        except OSError:
            self.close_connection = True  # the client is gone


def _name_of(path: str) -> str:
    """What is asked for; "" for nothing that is here."""
    if path.startswith(_API):
        return path.removeprefix(_API).rstrip("/")
    return path.rstrip("/") if path.startswith(_CONTROLNET) else ""


def _failure(code: str, said: str) -> dict[str, str]:
    """An error as A1111 sends it."""
    return {"error": code, "detail": said, "body": "", "errors": said}


def _given(header: str) -> bytes:
    """The token of a request: as a bearer token, or as the password of any user."""
    kind, _, value = header.partition(" ")
    if kind.casefold() == "bearer":
        return value.strip().encode()
    if kind.casefold() == "basic":
        try:
            return base64.b64decode(value, validate=True).partition(b":")[2]
        except ValueError:
            return b""
    return b""
