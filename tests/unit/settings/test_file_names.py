"""Names by a pattern: every token, what no system keeps, numbers, and refusals with their reasons."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.settings.file_names import EXAMPLE, TOKENS, example, pattern_problem, place_of


def name(pattern: str, folder: Path = Path("/p"), ending: str = ".png", **values: object) -> str:
    return place_of(pattern, msgspec.structs.replace(EXAMPLE, **values), folder, ending).relative_to(folder).as_posix()


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("{number}-{seed}", "00001-1234567.png"),
        ("{date}-{seed}-{prompt}", "2026-03-14-1234567-a red sun over green hills.png"),
        ("{date}/{time}", "2026-03-14/15-09-26.png"),
        ("{model}\\{sampler} {steps} {guidance}", "pocket/Euler a 20 7.5.png"),
        ("{width}x{height}", "512x512.png"),
        ("太阳-{seed}", "太阳-1234567.png"),
    ],
)
def test_tokens(pattern: str, wanted: str) -> None:
    assert pattern_problem(pattern) is None
    assert name(pattern) == wanted


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ('a/b\\c:d*e?f"g<h>i|j', "a_b_c_d_e_f_g_h_i_j"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("com¹", "_com¹"),
        ("console", "console"),
        ("two\nlines\tand  blanks", "two lines and blanks"),
        ("ends with dots. . .", "ends with dots"),
        ("", "1234567"),
        (" . ", "1234567"),
        ("x" * 300, "x" * 60),
        ("cafe\u0301", "café"),
    ],
)
def test_what_no_system_keeps_is_replaced(prompt: str, wanted: str) -> None:
    assert name("{prompt}", prompt=prompt) == f"{wanted}.png"


def test_long_names_end_between_signs() -> None:
    made = name("{prompt}{prompt}", prompt="日" * 60)
    assert made == "日" * 40 + ".png"


def test_an_empty_folder_is_left_out() -> None:
    assert name("{prompt}/{seed}", prompt="") == "1234567.png"


@given(st.text(), st.sampled_from(["{prompt}", "{prompt}/{model}", "a{model}b/{prompt}"]))
def test_no_prompt_leaves_the_folder(prompt: str, pattern: str) -> None:
    made = Path(name(pattern, prompt=prompt, model=prompt))
    assert ".." not in made.parts
    assert len(made.parts) <= 2
    assert all(len(part.encode(errors="replace")) < 130 for part in made.parts)


@pytest.mark.parametrize(
    ("pattern", "start"),
    [
        ("", "The pattern is empty."),
        ("  ", "The pattern is empty."),
        ("{nothing}", "{nothing} is not known. Known: {number}, {seed}"),
        ("{}", "{} is not known."),
        ("{seed", "A brace has no partner."),
        ("seed}", "A brace has no partner."),
        ("a:b", "A file name cannot contain :."),
        ("/abs", "A folder or file in the pattern has no name."),
        ("../up", "A folder or file in the pattern has no name."),
        ("a//b", "A folder or file in the pattern has no name."),
        ("a/", "A folder or file in the pattern has no name."),
        ("a/b/c/d/e", "The pattern has more than 3 folders."),
    ],
)
def test_refusals_say_why(pattern: str, start: str) -> None:
    problem = pattern_problem(pattern)
    assert problem is not None
    assert str(problem).startswith(start)


def test_every_token_is_filled() -> None:
    for token in TOKENS:
        assert pattern_problem(f"{{{token}}}") is None
        assert "{" not in example(f"x{{{token}}}", ".png")


@pytest.mark.parametrize(
    ("pattern", "there", "wanted"),
    [
        ("{number}-{seed}", ("00041-9.webp", "holiday.png", "00100.txt"), "00042-5.png"),
        ("{number}-{seed}", ("123456-5.png",), "123457-5.png"),
        ("{seed}-{number}", ("777777-00009.png",), "5-00010.png"),
        ("{prompt} {number}", ("a red sun 00003.png", "another 00007-2.jpg"), "a red sun 00008.png"),
    ],
)
def test_numbers_count_on(tmp_path: Path, pattern: str, there: tuple[str, ...], wanted: str) -> None:
    for one in there:
        (tmp_path / one).touch()
    assert name(pattern, tmp_path, seed=5, prompt="a red sun") == wanted


def test_numbers_count_within_their_folder(tmp_path: Path) -> None:
    (tmp_path / "2026-03-14").mkdir()
    (tmp_path / "2026-03-14" / "00004.png").touch()
    (tmp_path / "00009.png").touch()
    assert name("{date}/{number}", tmp_path) == "2026-03-14/00005.png"
    assert name("{date}/{number}", tmp_path, moment=datetime(2026, 3, 15, tzinfo=UTC)) == "2026-03-15/00001.png"
    assert name("{number}", tmp_path, ending=".mp4") == "00010.mp4"
