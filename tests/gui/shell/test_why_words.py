"""What is said of files that are recognised and cannot run, in the window's languages."""

import re

import pytest
from tests.helpers.headers import header
from tests.helpers.wording import translated
from tests.unit.library.test_gguf_header import WRONG
from tests.unit.library.test_recognise import ADDITIONS, DEV, MODELS, PARTS

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.gui.i18n import say, set_language
from halftone.gui.text import error_sentence
from halftone.library.add_ons.unusable_files import instead, why_not
from halftone.library.families.recognise import recognise


@pytest.mark.parametrize("case", [*MODELS, *PARTS, *ADDITIONS])
def test_every_sentence_can_be_translated(case: str) -> None:
    found = recognise(header((MODELS.get(case) or PARTS.get(case) or ADDITIONS[case])[0]))
    assert translated(why_not(found))
    assert translated(instead(found, "LoRA"))


def test_what_is_wrong_with_a_gguf_file_can_be_translated() -> None:
    assert WRONG
    assert all(translated(outcome.facts["detail"]) for outcome in WRONG)


def test_the_parts_in_a_sentence_are_translated_too(qapp: object) -> None:
    del qapp
    set_language("zh_CN")
    said = say(why_not(recognise(header(DEV))))
    net = say(why_not(recognise(header(ADDITIONS["esrgan-new"][0]))))
    set_language("en")
    assert "VAE（16 通道），文本编码器 CLIP-L，文本编码器 T5-XXL" in said
    assert "FLUX.1 dev" in said
    assert "tokenizer_2/spiece.model" in said
    assert not re.search(r"[a-z] [a-z]+ [a-z]", said), "no English is left"
    assert net == "它是放大模型（ESRGAN），不是完整的模型"


def test_a_list_of_what_is_missing_is_translated(qapp: object) -> None:
    del qapp
    weights = Words("weights of {0} (a .safetensors file)", ("vae",))
    files = HalftoneError("model-incomplete", path="/m", missing=("tokenizer/tokenizer.json", weights))
    folders = HalftoneError("model-incomplete", path="/m", missing=(Words("folder {0}", ("unet",)), "my folder, upscaler"))
    set_language("zh_CN")
    said, alone = (error_sentence(error.as_facts()) for error in (files, folders))
    set_language("en")
    assert "tokenizer/tokenizer.json，vae 的权重（一个 .safetensors 文件）" in said
    assert "文件夹 unet，my folder, upscaler" in alone, "a name is left as it is"
