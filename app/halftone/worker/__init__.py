"""The worker process: frames in and out, one job at a time, cancellation."""
