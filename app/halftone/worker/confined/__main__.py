"""`python -m halftone.worker.confined MEMORY LARGEST`: rewrites the pickle file at its standard input as safetensors."""

import io
import sys

from halftone.worker.confined.process import Work, main


def _prepare() -> Work:
    """Load torch, and let it read something, so that nothing is left to be imported later."""
    from halftone.worker.engines import loaded

    torch = loaded("torch:load").__globals__["torch"]
    torch.set_num_threads(1)
    rewrite: Work = loaded("halftone.engine.weights.pickles:rewrite")
    for zipped in (True, False):
        held = io.BytesIO()
        torch.save({"state_dict": {"a": torch.ones(2, 2).T}}, held, _use_new_zipfile_serialization=zipped)
        rewrite(held, len(held.getvalue()), io.BytesIO(), lambda _done, _total: None)
    return rewrite


if __name__ == "__main__":
    raise SystemExit(main(_prepare, int(sys.argv[1]), int(sys.argv[2])))
