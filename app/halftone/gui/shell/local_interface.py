"""The local interface for scripts, over the window's own session and queue, while its setting is on."""

import errno
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QObject, Qt, Signal

from halftone.contract.messages import AnyEvent
from halftone.gui.controller import Controller
from halftone.session.events import Noted
from halftone.settings.disk import system_words

if TYPE_CHECKING:
    from halftone.serve.interface import Interface
    from halftone.serve.server import Server

_log = logging.getLogger(__name__)


class LocalInterface(QObject):
    """Starts and stops with the setting. port: 0 for any that is free, None for the usual one."""

    posted = Signal(object)
    """A call from a request's thread, for this one."""

    def __init__(self, controller: Controller, port: int | None = None) -> None:
        super().__init__(controller)
        self._controller = controller
        self._port = port
        self._wanted = False
        self._interface: Interface | None = None
        self.server: Server | None = None
        self.secret = ""
        """The token of the server that was started last."""
        self.posted.connect(self._call, Qt.ConnectionType.QueuedConnection)
        controller.worker_event.connect(self._hear)
        controller.settings_changed.connect(self._follow)
        if (program := QCoreApplication.instance()) is not None:
            program.aboutToQuit.connect(self.stop)
        self._follow()

    def _follow(self) -> None:
        wanted = self._controller.settings.serve
        if wanted != self._wanted:  # a port in use is not tried again at every other change
            self._wanted = wanted
            self._start() if wanted else self.stop()

    def _start(self) -> None:
        from halftone.serve.server import token

        self._controller.background.run_in_order(token, self._serve, self._failed)

    def _serve(self, secret: str) -> None:
        """Serve, unless the setting was turned off or off and on again while the token was read."""
        from halftone.serve.interface import Interface
        from halftone.serve.server import PORT, Server

        if not self._wanted or self.server is not None:
            return
        port = PORT if self._port is None else self._port
        interface = Interface(self._controller.session, self.posted.emit)
        try:
            server = Server(interface, secret, port)
        except OSError as error:
            self._failed(error, port)
            return
        server.start()
        self.server, self.secret, self._interface = server, secret, interface
        self._controller.take(Noted(kind="serving", facts=(f"{server.address}/sdapi/v1",)))

    def _failed(self, error: Exception, port: int | None = None) -> None:
        """port: that was to be used."""
        if not self._wanted:
            return  # it was turned off while the token was read
        _log.info("the local interface cannot be started: %s", error)
        in_use = (str(port),) if isinstance(error, OSError) and error.errno == errno.EADDRINUSE else ()
        why = system_words(error) if isinstance(error, OSError) else error
        self._controller.take(Noted(kind="not-serving", facts=(str(why), *in_use)))

    def stop(self) -> None:
        """Answer no more; what is being made goes on."""
        server, self.server, self._interface = self.server, None, None
        if server is not None:
            server.stop()

    def _hear(self, event: AnyEvent, blob: bytes) -> None:
        if self._interface is not None:
            self._interface.hear(event, blob)

    def _call(self, call: Callable[[], object]) -> None:
        call()
