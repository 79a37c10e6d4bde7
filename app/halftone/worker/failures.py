"""What an exception means to the user: an exception in, error facts out."""

import traceback

import msgspec

from halftone.contract.error_sentences import WORDS
from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.wording import Words
from halftone.health.faults import first_line, is_device_lost, is_out_of_memory
from halftone.settings.disk import full_disk


def error_facts(error: BaseException, device: str, log: Words | str) -> ErrorFacts:
    """The facts of any exception. device: that was asked for; log: where the user finds more. An unforeseen one becomes
    `internal`, with the traceback in `details`.
    """
    if isinstance(error, HalftoneError):
        return _with_log(error.as_facts(), log)
    trace = "".join(traceback.format_exception(error))
    if is_out_of_memory(error):
        return ErrorFacts(code="out-of-memory", facts={"detail": first_line(error)}, details=trace)
    if is_device_lost(error):
        return ErrorFacts(code="device-lost", facts={"device": device, "detail": first_line(error)}, details=trace)
    if (full := full_disk(error)) is not None:
        return msgspec.structs.replace(full, details=trace)
    return ErrorFacts(code="internal", facts={"detail": first_line(error), "log": log}, details=trace)


def _with_log(facts: ErrorFacts, log: Words | str) -> ErrorFacts:
    if "{log}" not in "".join(WORDS[facts.code]) or "log" in facts.facts:
        return facts
    return msgspec.structs.replace(facts, facts={**facts.facts, "log": log})
