"""What is said of files that are recognised and cannot run, in the window's languages."""

import re

import pytest
from halftone.gui.reasons import fragment, recognised
from tests.helpers.headers import header
from tests.unit.library.test_gguf_header import WRONG
from tests.unit.library.test_recognise import ADDITIONS, DEV, MODELS, PARTS

from halftone.gui.i18n import set_language
from halftone.library.recognise import recognise
from halftone.library.why import why_not


@pytest.mark.parametrize("case", [*MODELS, *PARTS, *ADDITIONS])
def test_every_sentence_can_be_translated(case: str) -> None:
    patterns = (MODELS.get(case) or PARTS.get(case) or ADDITIONS[case])[0]
    assert recognised(why_not(recognise(header(patterns))))


def test_what_is_wrong_with_a_gguf_file_can_be_translated() -> None:
    details = [str(outcome.facts["detail"]) for outcome in WRONG]
    assert not [detail for detail in details if not recognised(detail)]


def test_the_parts_in_a_sentence_are_translated_too(qapp: object) -> None:
    del qapp
    set_language("zh_CN")
    said = fragment(why_not(recognise(header(DEV))))
    net = fragment(why_not(recognise(header(ADDITIONS["esrgan-new"][0]))))
    set_language("en")
    assert "VAE（16 通道），文本编码器 CLIP-L，文本编码器 T5-XXL" in said
    assert "FLUX.1 dev" in said
    assert "tokenizer_2/spiece.model" in said
    assert not re.search(r"[a-z] [a-z]+ [a-z]", said), "no English is left"
    assert net == "它是放大模型（ESRGAN），不是完整的模型"


def test_a_list_of_what_is_missing_is_translated(qapp: object) -> None:
    del qapp
    set_language("zh_CN")
    said = fragment("tokenizer/tokenizer.json, weights of vae (a .safetensors file)")
    alone, name = fragment("folder unet"), fragment("my folder, upscaler")
    set_language("en")
    assert said == "tokenizer/tokenizer.json，vae 的权重（一个 .safetensors 文件）"
    assert alone == "文件夹 unet"
    assert name == "my folder, upscaler", "a name is left as it is"
