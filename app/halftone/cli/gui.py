"""The only way from the command line to the window. Imports nothing else: it would come before the window's first paint."""


def open_window(files: tuple[str, ...] = (), *, new_window: bool = False) -> int:
    """Run the window; returns its exit code. Raises ImportError if Qt cannot be loaded."""
    from halftone.gui.main import main

    return main([], files, new_window=new_window)
