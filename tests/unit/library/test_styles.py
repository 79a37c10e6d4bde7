"""Files of styles as A1111 writes them, and what they make of a prompt."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Style
from halftone.library.prompts.styles import known_styles, own_file, read_styles, save_style, styled, styles_named

HEAD = "name,prompt,negative_prompt\n"


def styles_file(folder: Path, text: str) -> Path:
    path = folder / "styles.csv"
    path.write_bytes(text.encode("utf-8-sig"))
    return path


def test_a_file_of_a1111_is_read(tmp_path: Path) -> None:
    text = HEAD + '"Film, 35 mm","{prompt}, film grain","cartoon"\nOil,"oil painting\non canvas",\n----,,\n\n水彩,水彩画,照片\n'
    assert read_styles(styles_file(tmp_path, text)).styles == (
        Style(name="Film, 35 mm", prompt="{prompt}, film grain", negative="cartoon"),
        Style(name="Oil", prompt="oil painting\non canvas"),
        Style(name="水彩", prompt="水彩画", negative="照片"),
    )


def test_old_files_and_more_columns_are_read(tmp_path: Path) -> None:
    assert read_styles(styles_file(tmp_path, "name,text\nA,b\n")).styles == (Style(name="A", prompt="b"),)
    assert read_styles(styles_file(tmp_path, "id,Prompt,Name\n1,b,A\n")).styles == (Style(name="A", prompt="b"),)


def test_broken_lines_are_told_by_their_number(tmp_path: Path) -> None:
    book = read_styles(styles_file(tmp_path, HEAD + 'A,"a\nb",\nB,red, blue, green, x\n,nameless,\nC\nD,d,\n'))
    assert [style.name for style in book.styles] == ["A", "D"]
    assert book.broken == (4, 5, 6)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "styles-missing"),
        (b"", "styles-not-one"),
        (b"a,b,c\n1,2,3\n", "styles-not-one"),
        (b"\xff\xfe\x00", "words-unreadable"),
        (b'name,prompt\n"' + b"x" * 200_000, "styles-not-one"),
    ],
)
def test_what_is_no_file_of_styles_is_told(tmp_path: Path, content: bytes | None, code: str) -> None:
    path = tmp_path / "styles.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(HalftoneError) as caught:
        read_styles(path)
    assert caught.value.code == code


def test_a_folder_is_no_file_of_styles(tmp_path: Path) -> None:
    with pytest.raises(HalftoneError) as caught:
        read_styles(tmp_path)
    assert caught.value.code == "styles-missing"


def test_a_style_goes_around_the_prompt_or_behind_it() -> None:
    around = Style(name="a", prompt="a photo of {prompt}, grain", negative="text")
    behind = Style(name="b", prompt="sharp", negative="{prompt}, blurry")
    assert styled("a sun", "", (around,)) == ("a photo of a sun, grain", "text")
    assert styled("a sun", "ink", (behind, around)) == ("a photo of a sun, sharp, grain", "ink, blurry, text")
    assert styled("", "", (behind,)) == ("sharp", ", blurry")
    assert styled("as it is ", "", ()) == ("as it is ", "")


def test_a_name_that_is_not_there_is_told_with_near_ones(tmp_path: Path) -> None:
    book = read_styles(styles_file(tmp_path, HEAD + "Film,x,\nOil,y,\n"))
    assert [style.name for style in styles_named(("oil", "Film"), book)] == ["Oil", "Film"]
    with pytest.raises(HalftoneError, match=r"There is no style Flim\. Choose Film\."):
        styles_named(("Flim",), book)


def test_a_style_is_saved_in_our_own_file_and_replaced(tmp_path: Path) -> None:
    save_style(Style(name="Mine", prompt='a "b", c\nd'))
    save_style(Style(name="Other", prompt="x", negative="y"))
    save_style(Style(name="Mine", prompt="new"))
    users = styles_file(tmp_path, HEAD + "Mine,theirs,\nFilm,f,\n")
    assert read_styles(own_file()).styles == (Style(name="Other", prompt="x", negative="y"), Style(name="Mine", prompt="new"))
    known = known_styles(str(users)).styles
    assert [(style.name, style.prompt) for style in known] == [("Mine", "theirs"), ("Film", "f"), ("Other", "x")]
    assert [style.name for style in known_styles(None).styles] == ["Other", "Mine"]


words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20).map(str.strip)


@given(st.dictionaries(words.filter(bool), st.tuples(words.filter(bool), words), max_size=5))
def test_what_is_saved_is_read_back(tmp_path_factory: pytest.TempPathFactory, styles: dict[str, tuple[str, str]]) -> None:
    own_file().unlink(missing_ok=True)
    for name, (prompt, negative) in styles.items():
        save_style(Style(name=name, prompt=prompt, negative=negative))
    expected = tuple(Style(name=name, prompt=prompt, negative=negative) for name, (prompt, negative) in styles.items())
    assert known_styles(None).styles == expected


@given(st.text('a,"\n\r\ufeff;\x00{}', max_size=80))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "styles.csv"
    path.write_bytes((HEAD + text).encode())
    try:
        assert all(style.name for style in read_styles(path).styles)
    except HalftoneError as error:
        if error.code != "styles-not-one":
            raise


@pytest.mark.parametrize("prompt", ["{prompt}, {prompt}", "{prompt}" * 50_000])
def test_styles_that_repeat_the_prompt_again_and_again_are_refused(prompt: str) -> None:
    """Sixty that double it would come to 2^60 words."""
    styles = (Style(name="double", prompt=prompt),) * 60
    with pytest.raises(HalftoneError) as caught:
        styled("a red sun over green hills", "", styles)
    assert caught.value.code == "style-too-long"
    assert str(caught.value).startswith("The style double makes the prompt longer than 200000 characters.")


def test_a_style_may_repeat_the_prompt() -> None:
    assert styled("sun", "rain", (Style(name="a", prompt="{prompt} and {prompt}", negative="{prompt}"),)) == (
        "sun and sun",
        "rain",
    )
