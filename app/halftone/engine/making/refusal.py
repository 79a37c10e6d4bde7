"""What a pipeline says where it does not take what it is given, as a sentence of ours."""

from halftone.contract.errors import HalftoneError
from halftone.contract.request import PictureRequest
from halftone.engine.inputs.fitting_arguments import is_beyond_tables
from halftone.engine.inputs.resolve import refused
from halftone.engine.loading.load import Loaded
from halftone.engine.sampling.samplers import is_unfit, named_own, unfit_sampler, unfit_steps


def refusal(error: Exception, loaded: Loaded, request: PictureRequest, steps: int) -> Exception:
    """So many steps, a sampler, an option, an input; any other error stays a fault, and is given back as it is."""
    unfit = unfit_steps(getattr(loaded.pipe, "scheduler", None), steps, error)
    if unfit is not None:
        return unfit
    if request.sampler is not None and is_unfit(loaded.pipe.scheduler, error):
        return unfit_sampler(loaded.native_scheduler, request.sampler, error)
    if isinstance(error, IndexError) and is_beyond_tables(loaded.pipe, error):
        return HalftoneError("places-too-few", str(error), model=loaded.facts.name)
    told = error if isinstance(error, AssertionError) else refused(request.options, error)
    if request.sampler is not None:
        return told
    return named_own(told, error, loaded.facts, loaded.pipe, getattr(loaded.pipe, "scheduler", None))
