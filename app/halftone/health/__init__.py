"""What decides: verdicts, plans, the sentinel's next step, and the words for all of it. Pure Python, shared by window and
worker.
"""
