"""A listener that hears nothing and a control that lets the job run. Without torch: the scripted worker takes them too."""

from halftone.contract.messages import AnyEvent


class Going:
    """A control that never stops the job."""

    def cancelled(self) -> bool:
        return False

    def keep(self) -> bool:
        return False

    def check(self) -> None:
        return


def silent(event: AnyEvent, blob: bytes = b"") -> None:
    del event, blob
