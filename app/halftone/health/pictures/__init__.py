"""Decisions about one picture: passes, schedules, masks, what is unfinished, what is told."""
