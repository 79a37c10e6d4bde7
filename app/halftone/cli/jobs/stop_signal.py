"""How a job ends that the system stopped: as with Ctrl+C, but for the exit code."""

from halftone.contract.errors import JobCancelled


class StoppedBySignal(JobCancelled):
    """Raised where a signal asked the job to stop. exit_code: 128 and the signal's number, as shells have it."""

    def __init__(self, words: str, number: int) -> None:
        super().__init__(words)
        self.exit_code = 128 + number
