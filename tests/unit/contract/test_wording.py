"""Blanks where Chinese characters meet what is filled in."""

import pytest

from halftone.contract.errors import filled
from halftone.contract.wording import Words, fill


@pytest.mark.parametrize(
    ("template", "values", "said"),
    [
        ("{1} 的第{0}部分", (2, "解码器"), "解码器的第 2 部分"),
        ("{0}的范围是 {1} 到 {2}", ("CFG", 1, 30), "CFG 的范围是 1 到 30"),
        ("{0} 使用", ("显卡",), "显卡使用"),
        ("模型 {0}：损坏", ("甲",), "模型甲：损坏"),
        ("模型 {0}：损坏", ("SDXL",), "模型 SDXL：损坏"),
        ("{0}{1}保留", ("完成。", "种子"), "完成。种子保留"),
        ("{0}时", ("",), "时"),
        ("{{{0}}} 个", (3,), "{3} 个"),
        ("{0:.1f} 位", (2.04,), "2.0 位"),
        ("{0} {1}", ("我的", "模型"), "我的 模型"),
        ("{0}: no such model", ("模型",), "模型: no such model"),
        ("{0}的模型", ("甲 ",), "甲 的模型"),
        ("模型{0}", (" 甲",), "模型 甲"),
        ("模型 {0} 和 {1} 的层", ("甲", "乙"), "模型甲和乙的层"),
    ],
)
def test_blanks_stand_beside_latin_letters_only(template: str, values: tuple[object, ...], said: str) -> None:
    assert fill(template, values) == said


@pytest.mark.parametrize("path", ["/home/我的模型", "D:\\模型\\甲", "我的模型", "甲.safetensors"])
def test_blanks_of_a_template_stay_beside_names_and_paths(path: str) -> None:
    said = f"文件 {path} 不存在。"
    assert filled("文件 {path} 不存在。", {"path": path}) == said
    assert Words("文件 {0} 不存在。", (path,)).text() == said
    assert Words("文件 {0} 不存在。", ((path,),)).text() == said
    assert Words("文件 {0} 不存在。", (Words("甲"),)).text() == "文件甲不存在。"


def test_a_path_is_known_by_its_slashes_where_nothing_else_tells() -> None:
    assert fill("文件 {0} 不存在。", ("/home/我的模型",)) == "文件 /home/我的模型 不存在。"
    assert fill("文件 {0} 不存在。", ("D:\\模型",)) == "文件 D:\\模型 不存在。"


def test_what_is_not_given_is_an_error_as_with_format() -> None:
    with pytest.raises(IndexError):
        fill("{1}", ("a",))
    with pytest.raises(KeyError):
        fill("{name}", (), {})
    assert fill("{name} 的文件", (), {"name": "模型"}) == "模型的文件"
