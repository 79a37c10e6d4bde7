"""The terminal itself: what is safe to print there, progress, help, refusals."""
