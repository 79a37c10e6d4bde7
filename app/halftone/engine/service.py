"""The engine the worker talks to: the models in memory are kept between jobs, mostly one at a time."""

import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from halftone.contract.engine import Control, Emit
from halftone.contract.facts import (
    CheckReport,
    DeviceFacts,
    GenerateReport,
    MemoryFacts,
    ModelFacts,
    RepairReport,
    SelfTestReport,
)
from halftone.contract.messages import Examine, Generate, Load, ModelChanged, Repair, SelfTest, TestDone, Upscale
from halftone.contract.request import Extras, Lora, PictureRequest
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.basics.torch_settings import heed
from halftone.engine.checks.examine import Examination
from halftone.engine.checks.repair import repair
from halftone.engine.curing.first_plan import first_plan
from halftone.engine.extras.controls import with_controls
from halftone.engine.extras.denoiser import put_transformer
from halftone.engine.extras.ip_adapter import put_ip_adapters
from halftone.engine.extras.vae import put_vae
from halftone.engine.inputs.check_memory import memory_told
from halftone.engine.inputs.memory import fit_together, settle_at_rest
from halftone.engine.loading.compiling import take_all_compiled
from halftone.engine.loading.in_memory import Models
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import apply_plan, put_fp8, put_inversions, put_loras
from halftone.engine.making.enlarging import Enlarging
from halftone.engine.making.generate import Generation
from halftone.engine.making.job import Job
from halftone.engine.making.one_by_one import drawn_before, make_one_by_one, pictures_of
from halftone.engine.making.passes import Passes
from halftone.engine.making.prepared import Prepared, Version, prepare, version_of
from halftone.engine.making.refining import Refining
from halftone.engine.sampling.handover import Handover
from halftone.engine.sampling.misfit import parts_named
from halftone.health.pictures.passes import in_passes
from halftone.health.pictures.refiners import alone, decoded_by
from halftone.health.pictures.requests import check_inputs, check_now, check_request, check_upscale
from halftone.health.pictures.unfinished_pictures import going_on, read_kept
from halftone.health.precision import granted_to
from halftone.library.add_ons.extras import check_extras_fit
from halftone.library.add_ons.lora_fit import check_lora_fit
from halftone.library.add_ons.loras import check_loras
from halftone.library.add_ons.vaes import check_fit as check_vae_fit
from halftone.library.models import is_as_it_was
from halftone.library.prompts.drawn_prompts import may_draw_loras
from halftone.library.records import SelfTests
from halftone.library.tasks import check_given
from halftone.measure.devices import find_device, list_devices, memory
from halftone.measure.selftest import run_self_test


class DiffusersEngine:
    """Implements `contract.engine.Engine` with torch and diffusers."""

    def __init__(self) -> None:
        self._models = Models()
        self._used = ""
        self._self_tests = SelfTests()
        self._warm: tuple[Version, Prepared] | None = None
        """The last request, where it can be made again with other seeds, and what it depended on."""

    @property
    def loaded(self) -> Loaded | None:
        """The model in memory; of several the one in use."""
        return self._models.last

    def devices(self) -> tuple[DeviceFacts, ...]:
        return list_devices()

    def self_test(self, command: SelfTest, emit: Emit, control: Control) -> SelfTestReport:
        self._warm = None
        device = find_device(command.device)
        report = run_self_test(
            device, lambda result, done, total: emit(TestDone(result=result, done=done, total=total)), control.check
        )
        return self._self_tests.keep(report)

    def _tested(self, device: DeviceFacts) -> SelfTestReport | None:
        """What is known of the device, which every run on it goes by."""
        tested = self._self_tests.of(device)
        heed(device.id, tested)
        return tested

    def generate(self, command: Generate, emit: Emit, control: Control) -> GenerateReport:
        version = version_of(command.request)
        if (prepared := self._held(version)) is not None:
            return self._once_more(prepared, command.request, version, emit, control)
        facts = self._models.describe(command.request.model)
        check_request(command.request, facts)
        request, only_decode = going_on(command.request)
        if command.request.resume_latents is not None:
            pictures = [(request, drawn_before(command.request))]
        elif not may_draw_loras(request):
            return self._make(request, (), facts, False, emit, control, version)
        else:
            pictures = pictures_of(request)
            for one, drawn in pictures:
                check_loras(drawn)
                check_extras_fit(one.extras, facts)
        return make_one_by_one(pictures, lambda one, loras, tell: self._make(one, loras, facts, only_decode, tell, control), emit)

    def _make(
        self,
        request: PictureRequest,
        drawn: tuple[Lora, ...],
        facts: ModelFacts,
        only_decode: bool,
        emit: Emit,
        control: Control,
        version: Version | None = None,
    ) -> GenerateReport:
        """Make pictures with the same parts beside the model's own. drawn: LoRAs that the prompts named; only_decode: nothing
        else is left of them; version: of the request, where it can be repeated.
        """
        check_vae_fit(request.vae, facts)
        if not only_decode:
            check_extras_fit(request.extras, facts)
            check_given(facts, image=request.image is not None, mask=request.masked, strength=request.start.strength is not None)
        device = find_device(request.device)
        job = Job(request, device, self._tested(device), emit, control, drawn, self._models.others_leave)
        fp8 = request.numerics.fp8_storage
        with quiet_libraries(), parts_named(lambda: self._models.all):
            if only_decode:
                maker = decoded_by(read_kept(Path(request.resume_latents or "")), facts)
                loaded = self._equipped(self._ready(maker, device, emit), request.extras, fp8=fp8, only_decode=True)
                handover = Handover(model=facts)
                return Generation(prepare(loaded, job, handover), job, handover=handover).run()
            if request.refiner is not None:
                refiner, last = self._models.describe(request.refiner.path), alone(request)
                together = fit_together(((facts, request), (refiner, last)), device, job.tested, self._models.all)
                if together:
                    self._models.leave_but((facts, refiner), device)

                def bring(one: ModelFacts, extras: Extras) -> Callable[[], Loaded]:
                    return lambda: self._equipped(self._ready(one, device, emit, beside=together), extras, fp8=fp8)

                bases = bring(facts, request.extras), bring(refiner, last.extras)
                return Refining(*bases, facts, job, together=together).run()
            loaded = self._equipped(self._ready(facts, device, emit), request.extras, fp8=fp8)
            if in_passes(request):
                return Passes(loaded, job).run()
            return self._run(prepare(loaded, job), job, version)

    def _once_more(
        self, prepared: Prepared, request: PictureRequest, version: Version, emit: Emit, control: Control
    ) -> GenerateReport:
        """Make pictures of the last request with other seeds. The self-test went into what was prepared."""
        check_now(request)
        job = Job(request, prepared.device, None, emit, control, others_leave=self._models.others_leave)
        with quiet_libraries(), parts_named(lambda: self._models.all):
            return self._run(prepared.of(request), job, version)

    def _run(self, prepared: Prepared, job: Job, version: Version | None) -> GenerateReport:
        report = Generation(prepared, job).run()
        # pictures that depend on nothing but the request and the versions of its files
        if version is not None and prepared.kept is None and not prepared.says_otherwise and not report.events:
            self._warm = version, prepared
        return report

    def _held(self, version: Version) -> Prepared | None:
        """What the last request was resolved to, if this is the same one but for its seeds and nothing changed since."""
        warm, self._warm = self._warm, None
        return warm[1] if warm is not None and warm[0] == version and is_as_it_was(warm[1].loaded.facts) else None

    def _equipped(self, loaded: Loaded, extras: Extras, *, fp8: bool, only_decode: bool = False, sound: bool = True) -> Loaded:
        """Add everything used beside the model's own parts. only_decode: what reaches the decoder; sound: see `put_loras`."""
        put_fp8(loaded, wanted=fp8)
        put_vae(loaded, extras.vae)
        if not only_decode:
            put_transformer(loaded, extras.transformer)
        # nothing else that is added reaches the decoder, and its cures are those of the model alone
        put_loras(loaded, () if only_decode else extras.loras, sound=sound)
        if not only_decode:
            put_inversions(loaded, extras.inversions)  # after the LoRAs, which may hold some
        put_ip_adapters(loaded, () if only_decode else extras.ip_adapters)
        return with_controls(loaded, () if only_decode else extras.controls)

    def examine(self, command: Examine, emit: Emit, control: Control) -> CheckReport:
        facts = self._models.describe(command.model)
        check_inputs(command.inputs, facts)
        check_extras_fit(command.inputs.extras, facts)
        device = find_device(command.device)
        loaded = self._ready(facts, device, emit)
        with quiet_libraries(), parts_named(lambda: self._models.all), memory_told(facts.name):
            # a check tells what is bad in LoRAs
            loaded = self._equipped(loaded, command.inputs.extras, fp8=command.numerics.fp8_storage, sound=False)
            take_all_compiled(loaded)
            return Examination(loaded, device, self._tested(device), command, emit, control).run()

    def repair(self, command: Repair, emit: Emit, control: Control) -> RepairReport:
        check_loras(command.loras)
        facts = self._models.describe(command.model)
        check_lora_fit(command.loras, facts)
        device = find_device(command.device)
        loaded = self._ready(facts, device, emit)
        with quiet_libraries(), parts_named(lambda: self._models.all), memory_told(facts.name):
            loaded = self._equipped(loaded, Extras(loras=command.loras), fp8=False)  # the copy is of the model itself
            take_all_compiled(loaded)
            return repair(loaded, device, self._tested(device), command, emit, control)

    def upscale(self, command: Upscale, emit: Emit, control: Control) -> GenerateReport:
        check_upscale(command.request)
        device = find_device(command.request.device)

        def make_room() -> bool:
            there = self.loaded is not None
            if there:
                self.unload()
                emit(ModelChanged(model=None))
            return there

        with quiet_libraries():
            return Enlarging(command.request, device, self._tested(device), emit, control, make_room).run()

    def load(self, command: Load, emit: Emit) -> ModelFacts:
        facts = self._models.describe(command.model)
        device = find_device(command.device)
        loaded = self._ready(facts, device, emit, beside=self._models.holds(facts, device))
        dtype, _ = granted_to(command.numerics, self._tested(device), device, facts, loaded.extras)
        with quiet_libraries():
            put_fp8(loaded, wanted=command.numerics.fp8_storage)
            plan = first_plan(loaded, device, dtype, command.numerics)[0]
            settle_at_rest(loaded, device, command.numerics, plan.dtypes, lambda: apply_plan(loaded, plan))
        return facts

    def unload(self) -> None:
        self._warm = None
        self._models.unload()

    def memory(self) -> MemoryFacts | None:
        return memory(self._used) if self._used else None

    def _ready(self, facts: ModelFacts, device: DeviceFacts, emit: Emit, *, beside: bool = False) -> Loaded:
        """The model in memory, loaded now if it is not there. beside: others may stay."""
        self._warm = None  # what is done with the model now may change it
        loaded = self._models.ready(facts, device, emit, beside=beside)
        self._used = str(loaded.device)
        return loaded
