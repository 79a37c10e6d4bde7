"""Pictures of every kind that Halftone writes, each as its request and its facts."""

from tests.helpers.pictures import picture_facts, resolved

from halftone.contract.facts import PassFacts, PictureFacts
from halftone.contract.request import Control, Hires, IpAdapter, Lora, Refiner, ResolvedRequest, Start

TWO: tuple[PassFacts, ...] = tuple(
    PassFacts(kind=kind, width=128, height=96, steps=20, seconds=1.0, dtypes={"unet": "float16"}) for kind in ("first", "second")
)


def _two(**changes: object) -> tuple[ResolvedRequest, PictureFacts]:
    return resolved(**changes), picture_facts(passes=TWO)


def _one(**changes: object) -> tuple[ResolvedRequest, PictureFacts]:
    return resolved(**changes), picture_facts()


KINDS: dict[str, tuple[ResolvedRequest, PictureFacts]] = {
    "text to image": _one(negative="blurry, low quality"),
    "no prompt": _one(prompt=""),
    "weights and lines": _one(prompt='a (red:1.3) [sun:moon:0.5],\nBREAK "quoted" \\(by someone\\)', negative="(bad:1.2)\nink"),
    "Chinese": _one(prompt="太阳 ☀ 𝄞, 山", negative="雨"),
    "a model with a comma": _one(negative="ink", model="/m/my, model: v2.safetensors"),
    "a VAE": _one(vae="/v/mse, 840000.safetensors", options={"clip_skip": 1}),
    "image to image": _one(negative="ink", image="/p/photo.png", start=Start(strength=0.6, resize="crop")),
    "inpaint": _one(
        image="/p/photo.png", mask="/p/mask.png", start=Start(strength=0.75, mask_blur=8, masked_content="noise", only_masked=32)
    ),
    "outpaint": _one(image="/p/photo.png", start=Start(strength=0.8, outpaint=(64, 0, 64, 0))),
    "Hires. fix of latents": _two(negative="ink", hires=Hires(scale=1.5, strength=0.5)),
    "Hires. fix by a model": _two(hires=Hires(upscaler="/u/4x, ultra.safetensors", steps=12, strength=0.35)),
    "a refiner": _two(refiner=Refiner(path="/m/refiner.safetensors", at=0.75)),
    "LoRAs": _one(negative="ink", loras=(Lora(path="/l/ink v2.safetensors", weight=0.8), Lora(path="/l/glow.safetensors"))),
    "a ControlNet": _one(
        negative="ink",
        controls=(
            Control(path="/c/canny.safetensors", image="/p/a.png", canny=True, scale=0.7, end=0.5),
            Control(path="/c/depth.safetensors", image="/p/b.png"),
        ),
    ),
    "an IP-Adapter": _one(ip_adapters=(IpAdapter(path="/n/plus.safetensors", images=("/p/a.png", "/p/b.png"), scale=0.5),)),
    "a variation": _one(variation_seed=9, variation_strength=0.25, seed_size=(512, 512)),
    "FLUX.1": _one(
        model="/m/flux1-dev.safetensors",
        dtype="bfloat16",
        guidance=3.5,
        sampler="Euler Simple",
        width=1024,
        height=1024,
        steps=28,
    ),
    "styles": _one(negative="ink", styles=("film", "night, rain"), written="a sun", written_negative="ink"),
    "options": _one(negative="ink", options={"eta": 0.5, "guidance_rescale": 0.7}),
    "embeddings": _one(negative="ink", inversions=("/e/bad hand.safetensors", "/e/glow.pt")),
    "A1111's syntax and emphasis": _one(prompt="a (red:1.3) [sun", negative="ink", options={"prompt_syntax": 1, "emphasis": 1}),
    "ComfyUI's syntax": _one(prompt="a (red:1.3) embedding:glow", negative="ink", options={"prompt_syntax": 2}),
    "a LoRA with two weights": _one(negative="ink", loras=(Lora(path="/l/ink.safetensors", weight=0.8, encoder_weight=0.6),)),
    "a cure": (resolved(negative="ink"), picture_facts(state="recovered", cures={"vae": "upcast-region", "unet": "rescale"})),
    "a stopped one": (resolved(negative="ink"), picture_facts(steps=9, stopped_of=20)),
}
