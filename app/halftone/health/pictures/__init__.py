"""Decisions about one picture: passes, schedules, masks, what is unfinished, which settings a picture names."""
