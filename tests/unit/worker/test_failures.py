"""What an exception means to the user."""

import errno
import gc
import weakref

import pytest

from halftone.contract.errors import HalftoneError, say
from halftone.health.faults import first_line, forget_frames, is_device_lost, is_out_of_memory, raise_if_lost
from halftone.worker.failures import error_facts

OUT_OF_MEMORY = [
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB",
    "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
    "MPS backend out of memory (MPS allocated: 8.00 GB)",
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.",
    "XPU out of memory. Tried to allocate 20.00 MiB",
    "UR backend failed. UR backend returns:39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes.",
    "unable to mmap 4096 bytes from file </model.safetensors>: Cannot allocate memory (12)",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "std::bad_alloc",
]
LOST = [
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: device-side assert triggered",
    "HIP error: unspecified launch failure",
    "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`",
    "level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
]
NEITHER = [
    "CUDA error: no kernel image is available for execution on the device",
    "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
    "",
]


@pytest.mark.parametrize("text", OUT_OF_MEMORY)
def test_out_of_memory_is_seen_on_each_backend(text: str) -> None:
    assert is_out_of_memory(RuntimeError(text))
    assert not is_device_lost(RuntimeError(text))


@pytest.mark.parametrize("text", LOST)
def test_a_lost_device_is_seen_on_each_backend(text: str) -> None:
    assert is_device_lost(RuntimeError(text))
    assert not is_out_of_memory(RuntimeError(text))


@pytest.mark.parametrize("text", LOST)
def test_the_work_that_lost_the_device_is_named_and_still_seen_as_such(text: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        raise_if_lost(RuntimeError(text), "matmul in float16")
    assert is_device_lost(caught.value)
    assert first_line(caught.value).startswith("matmul in float16: ")
    raise_if_lost(RuntimeError("odd driver"), "matmul in float16")


@pytest.mark.parametrize("text", NEITHER)
def test_other_errors_are_neither(text: str) -> None:
    assert not is_device_lost(RuntimeError(text))
    assert not is_out_of_memory(RuntimeError(text))


def test_only_what_a_library_raises_counts() -> None:
    assert not is_out_of_memory(ValueError("out of memory"))
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(OSError(errno.ENOMEM, "Cannot allocate memory"))
    assert not is_out_of_memory(OSError(errno.ENOSPC, "No space left on device"))


def test_the_log_is_named_where_the_words_ask_for_it() -> None:
    told = say(error_facts(HalftoneError("model-load-failed", path="x", detail="odd"), "cpu", "worker.log"))
    assert "(log)" not in told
    assert error_facts(HalftoneError("worker-lost", cause="x"), "cpu", "worker.log").facts["log"] == "worker.log"
    assert "log" not in error_facts(HalftoneError("file-empty", path="x"), "cpu", "worker.log").facts


def test_a_lost_device_is_named() -> None:
    assert say(error_facts(RuntimeError(LOST[0]), "cuda:0", "")).startswith("cuda:0 stopped responding: CUDA error: an ill")


@pytest.mark.parametrize(
    ("error", "line"),
    [(ValueError("one.\ntwo"), "one"), (ValueError(), "ValueError"), (KeyError("name"), "'name'"), (OSError(" \n"), "OSError")],
)
def test_the_first_line_stands_in_the_sentence(error: Exception, line: str) -> None:
    assert first_line(error) == line


def test_what_an_error_held_can_be_freed_while_the_error_lives() -> None:
    class Tensor:
        pass

    def fill() -> None:
        big = Tensor()
        alive.append(weakref.ref(big))
        raise RuntimeError("CUDA out of memory")

    alive: list[weakref.ref[Tensor]] = []
    with pytest.raises(RuntimeError) as caught:
        fill()
    assert alive[0]() is not None
    forget_frames(caught.value)
    gc.collect()
    assert alive[0]() is None


@pytest.mark.parametrize("circle", [1, 2])
def test_causes_that_go_in_a_circle_are_forgotten_once(circle: int) -> None:
    class Tensor:
        pass

    def fill() -> None:
        big = Tensor()
        alive.append(weakref.ref(big))
        raise RuntimeError("CUDA out of memory")

    alive: list[weakref.ref[Tensor]] = []
    errors: list[RuntimeError] = []
    for _ in range(circle):
        with pytest.raises(RuntimeError) as caught:
            fill()
        errors.append(caught.value)
    for error, cause in zip(errors, (*errors[1:], errors[0]), strict=True):
        error.__cause__ = cause
    forget_frames(errors[0])
    gc.collect()
    assert [reference() for reference in alive] == [None] * circle
