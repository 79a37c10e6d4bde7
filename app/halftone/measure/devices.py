"""Devices torch can compute on here, and what was really read of each. An odd driver hides its device, no more."""

import logging
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import psutil
import torch

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import DeviceFacts, MemoryFacts
from halftone.contract.vocabulary import DeviceDetail
from halftone.contract.wording import either

log = logging.getLogger(__name__)

_INSTRUCTION_SETS: Final[dict[str, str]] = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_bf16": "AVX512-BF16",
    "avx512_fp16": "AVX512-FP16",
    "amx_bf16": "AMX-BF16",
    "amx_fp16": "AMX-FP16",
    "asimd": "NEON",
    "asimdhp": "NEON-FP16",
    "bf16": "NEON-BF16",
    "sve": "SVE",
}
"""Flags of /proc/cpuinfo that matter for numbers -> their usual names."""


def list_devices() -> tuple[DeviceFacts, ...]:
    """All devices, the preferred one first: CUDA or ROCm, XPU, MPS, others that torch knows; and the CPU, always there."""
    found: list[DeviceFacts] = []
    for read in (_cuda_devices, _xpu_devices, _mps_devices, _other_devices):
        try:
            found += read()
        except (RuntimeError, AssertionError, OSError, AttributeError) as error:
            log.warning("a device could not be read: %s", error)
    return (*found, _cpu_device())


def find_device(name: str) -> DeviceFacts:
    """The device for "auto", an id ("cuda:0"), a kind ("cuda") or part of a name. Raises HalftoneError device-unknown."""
    devices = list_devices()
    wanted = name.strip().lower()
    if wanted in {"auto", ""}:
        return devices[0]
    for found in (
        [device for device in devices if wanted in (device.id, device.id.removesuffix(":0"))],
        [device for device in devices if wanted == device.backend],
        [device for device in devices if len(wanted) >= 3 and wanted in device.name.lower()],
    ):
        if found:
            return found[0]
    raise HalftoneError("device-unknown", device=name, known=either("auto", *(device.id for device in devices)))


def memory(device: str) -> MemoryFacts:
    """Bytes of the device's memory: in total, used by this program, used by others. For "mps" and "cpu": the machine's memory."""
    kind = device.partition(":")[0]
    if kind not in {"mps", "cpu"}:
        module: Any = torch.get_device_module(kind)
        own = module.memory_reserved(torch.device(device))
        try:
            free, total = module.mem_get_info(torch.device(device))
        except RuntimeError as error:  # some Intel drivers do not tell what is free
            log.info("free memory of %s: %s", device, error)
            total = int(module.get_device_properties(torch.device(device)).total_memory)
            free = total - own
        return MemoryFacts(total=total, own=own, others=max(0, total - free - own))
    machine = psutil.virtual_memory()
    own = torch.mps.driver_allocated_memory() if kind == "mps" else psutil.Process().memory_info().rss
    return MemoryFacts(total=machine.total, own=own, others=max(0, machine.total - machine.available - own))


def _cuda_devices() -> Iterator[DeviceFacts]:
    if not torch.cuda.is_available():
        return
    hip = torch.version.hip
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        details: dict[DeviceDetail, str] = {"multiprocessors": str(properties.multi_processor_count)}
        if hip:
            details |= {"rocm": hip, "architecture": str(getattr(properties, "gcnArchName", "")).partition(":")[0]}
        else:
            details |= {"cuda": torch.version.cuda or "", "cudnn": _cudnn_version()}
        yield DeviceFacts(
            id=f"cuda:{index}",
            backend="rocm" if hip else "cuda",
            name=properties.name,
            memory_total=properties.total_memory,
            driver=_amd_driver() if hip else _nvidia_driver(),
            capability=f"{properties.major}.{properties.minor}",
            torch_version=str(torch.__version__),
            details=_filled(details),
        )


def _cudnn_version() -> str:
    if not torch.backends.cudnn.is_available():
        return ""
    version = torch.backends.cudnn.version() or 0
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}" if version >= 90000 else str(version)


def _xpu_devices() -> Iterator[DeviceFacts]:
    if not torch.xpu.is_available():
        return
    for index in range(torch.xpu.device_count()):
        properties = torch.xpu.get_device_properties(index)
        yield DeviceFacts(
            id=f"xpu:{index}",
            backend="xpu",
            name=str(properties.name),
            memory_total=int(properties.total_memory),
            driver=str(getattr(properties, "driver_version", "")) or None,
            torch_version=str(torch.__version__),
            details=_filled({"platform": str(getattr(properties, "platform_name", ""))}),
        )


def _mps_devices() -> Iterator[DeviceFacts]:
    if not torch.backends.mps.is_available():
        return
    yield DeviceFacts(
        id="mps",
        backend="mps",
        name=_cpu_name(),
        memory_total=psutil.virtual_memory().total,
        driver=platform.mac_ver()[0] or None,
        torch_version=str(torch.__version__),
        details=_filled({"macos": platform.mac_ver()[0]}),
    )


def _other_devices() -> Iterator[DeviceFacts]:
    """Accelerators whose makers add them to torch, such as NPUs: "npu:0", "musa:0" …"""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None or accelerator.type in {"cuda", "xpu", "mps"}:
        return
    module: Any = torch.get_device_module(accelerator)
    for index in range(torch.accelerator.device_count()):
        yield DeviceFacts(
            id=f"{accelerator.type}:{index}",
            backend=accelerator.type,
            name=str(module.get_device_name(index)),
            memory_total=int(module.mem_get_info(index)[1]),
            torch_version=str(torch.__version__),
        )


def _cpu_device() -> DeviceFacts:
    cores = psutil.cpu_count(logical=False)
    return DeviceFacts(
        id="cpu",
        backend="cpu",
        name=_cpu_name(),
        memory_total=psutil.virtual_memory().total,
        torch_version=str(torch.__version__),
        threads=torch.get_num_threads(),
        details=_filled(
            {
                "cores": str(cores or ""),
                "threads": str(psutil.cpu_count() or ""),
                "instruction-sets": ", ".join(_instruction_sets()),
                "architecture": platform.machine(),
            }
        ),
    )


def _cpu_name() -> str:
    """Model name by the system, or the architecture."""
    readers: dict[str, Callable[[], str]] = {
        "Linux": lambda: _cpuinfo("model name") or _cpuinfo("Model"),
        "Darwin": lambda: _output(["sysctl", "-n", "machdep.cpu.brand_string"]),
        "Windows": _windows_cpu_name,
    }
    read = readers.get(platform.system())
    try:
        name = read() if read else ""
    except (OSError, subprocess.SubprocessError) as error:
        log.info("no processor name: %s", error)
        name = ""
    return " ".join(name.split()) or f"{platform.machine() or 'unknown'} processor"


def _windows_cpu_name() -> str:
    winreg = __import__("winreg")
    with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0") as key:
        return cast(str, winreg.QueryValueEx(key, "ProcessorNameString")[0])


def _instruction_sets() -> list[str]:
    if platform.system() == "Linux":
        flags = set((_cpuinfo("flags") or _cpuinfo("Features")).split())
        return [name for flag, name in _INSTRUCTION_SETS.items() if flag in flags]
    return [torch.backends.cpu.get_cpu_capability()]


def _cpuinfo(field: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(rf"^{re.escape(field)}\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


@cache
def _nvidia_driver() -> str | None:
    """The version, read once: starting nvidia-smi takes longer than many a job's preparation."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"\s(\d{3,}\.\d+(?:\.\d+)?)\s", text)
    if found:
        return found.group(1)
    try:
        lines = _output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]).splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        log.info("no driver version: %s", error)
        return None
    return lines[0].strip() or None if lines else None


def _amd_driver() -> str | None:
    try:
        return Path("/sys/module/amdgpu/version").read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _output(command: list[str]) -> str:
    flags = 0x08000000 if os.name == "nt" else 0  # CREATE_NO_WINDOW
    done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True, creationflags=flags)
    return done.stdout.strip()


def _filled(details: dict[DeviceDetail, str]) -> dict[DeviceDetail, str]:
    return {label: value for label, value in details.items() if value}
