"""The parts of the controller. Each knows only the parts named in its constructor; the controller joins them."""
