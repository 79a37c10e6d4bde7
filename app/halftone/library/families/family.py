"""What a model family is: what it is used to, and of which parts it is made; the parts by their names."""

from typing import Final, Literal

import msgspec

Prediction = Literal["", "epsilon", "v_prediction", "flow", "edm"]
"""What the denoiser gives: the noise, the velocity, the direction of a flow, the picture as in EDM; "" where nothing tells."""

CLIP_L: Final = "CLIP-L"
CLIP_H: Final = "OpenCLIP-H"
CLIP_G: Final = "OpenCLIP-G"
T5_XXL: Final = "T5-XXL"
UMT5: Final = "UMT5-XXL"
PILE_T5: Final = "Pile-T5-XL"
MT5: Final = "mT5-XL"
BERT: Final = "BERT"
GEMMA2: Final = "Gemma 2 2B"
QWEN25_VL: Final = "Qwen2.5-VL 7B"
QWEN3_4B: Final = "Qwen3 4B"
QWEN3_8B: Final = "Qwen3 8B"
QWEN3_VL: Final = "Qwen3-VL 4B"
CHATGLM: Final = "ChatGLM3 6B"
GLM4: Final = "GLM-4 9B"
LLAMA: Final = "Llama 3.1 8B"
LLAVA: Final = "LLaVA Llama 3 8B"
MISTRAL: Final = "Mistral Small 3 24B"

VAE_4: Final = "VAE (4 channels)"
VAE_16: Final = "VAE (16 channels)"
VAE_FLUX2: Final = "FLUX.2 VAE"
VAE_WAN: Final = "Wan 2.1 VAE"
DC_AE: Final = "DC-AE"


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """size: pixels of the edge it was trained on. tokens: prompt length its pipeline uses. pipelines: how the names of diffusers'
    classes that run it begin. vae, encoders: what a whole model has beside the denoiser. frames: it makes videos.
    """

    name: str
    size: int
    steps: int
    guidance: float
    tokens: int = 77
    pipelines: tuple[str, ...] = ()
    prediction: Prediction = "flow"
    vae: str = VAE_16
    encoders: tuple[str, ...] = ()
    frames: bool = False
