"""Jobs that end in pictures: one pass or two, watched, cured, saved with their receipts."""
