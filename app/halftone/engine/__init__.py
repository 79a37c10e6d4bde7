"""Loads models, applies plans, generates with the sentinel, checks and repairs. Everything here may use torch and diffusers."""

from halftone.engine.basics.late import postpone

postpone("scipy.stats")  # 0.4 s of a start: every scheduler of diffusers imports it, only the Beta schedule uses it
