"""The only way from the command line to the window."""

from halftone.contract.errors import HalftoneError


def open_window() -> int:
    """Run the window; returns its exit code. Raises HalftoneError internal if Qt cannot be loaded."""
    try:
        from halftone.gui.main import main
    except ImportError as error:
        raise HalftoneError("worker-start", detail=f"the window's libraries are missing ({error})", log="the terminal") from error
    return main([])
