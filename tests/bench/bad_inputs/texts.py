"""Files of styles and wildcards, captions, and prompts: changed by chance, endless, in other encodings, or no files at all."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.bench.bad_inputs.case import Case, Use

from halftone.contract.request import PictureRequest, Style
from halftone.library.add_ons.loras import has_tags, take_tags
from halftone.library.prompts.drawn_prompts import spoken
from halftone.library.prompts.prompt_syntax import notes, parse
from halftone.library.prompts.styles import known_styles, read_styles, styled, styles_named
from halftone.library.prompts.wildcards import Book, check_wildcards, draw, drawn_spans, unfollowed
from halftone.library.training_data.training_pictures import _caption as read_caption

_STYLES: Final = 'name,prompt,negative_prompt\ninked,"ink, {prompt}, lines",blurry\nplain,a sun,\n"two\nlines",x,y\n'
_WORDS: Final = "red\n# a remark\n3::blue\n{dark|light} green\n__other__\n"
_PROMPTS: Final = (
    "a (red:1.2) sun over [green|blue] hills, [a:b:0.5] BREAK {2$$x|y|z} __colour__ <lora:ink:0.8>",
    "((((a))))",
    "[[a:b:3]::4]",
    "{1-3$$ and $$a|{b|c}}",
    "\\(a\\) :) (:",
    "${x={a|b}} {%if%} {@a|b}",
    "a AND b :1",
)
_SIGNS: Final = "()[]{}|:$_*<>\\,\"'\n\t\0\x1b\u202e\u2028\ufeff\U0001f31e~@%#-=.9 "


def cases(rng: random.Random) -> Iterator[Case]:
    """Styles, wildcards, captions, then prompts."""
    for name, content in (*_files(_STYLES, rng, 60), *_odd_styles()):
        yield Case("texts", f"styles: {name}", _writing("styles.csv", content), (_styles, _known))
    for name, content in (*_files(_WORDS, rng, 50), *_odd_wildcards()):
        yield Case("texts", f"wildcards: {name}", _writing("colour.txt", content), (_drawn, _checked))
    for name, content in _files("a red sun", rng, 20):
        yield Case("texts", f"caption: {name}", _writing("a.txt", content), (lambda folder: read_caption(folder / "a.txt"),))
    for name, prompt in _prompts(rng):
        yield Case("texts", f"prompt: {name}", lambda _folder: None, _reading(prompt))
    for name, styles in _chosen(rng):
        yield Case("texts", f"styles chosen: {name}", lambda _folder: None, (lambda _folder, styles=styles: _apply(styles),))


# --- uses --------------------------------------------------------------------------------------------------------------


def _styles(folder: Path) -> None:
    book = read_styles(folder / "styles.csv")
    _apply(book.styles)
    if book.styles:
        styles_named([book.styles[0].name], book)


def _known(folder: Path) -> None:
    known_styles(str(folder / "styles.csv"))


def _apply(styles: tuple[Style, ...]) -> None:
    styled("a red sun", "rain", styles)


def _drawn(folder: Path) -> None:
    book = Book((str(folder),))
    for seed in range(3):
        draw("a __colour__ {sun|__*__}", seed, book)


def _checked(folder: Path) -> None:
    check_wildcards(("__colour__", "__nothing__"), (str(folder),))


def _reading(prompt: str) -> tuple[Use, ...]:
    def as_spoken(folder: Path) -> None:
        (folder / "colour.txt").write_text("red\nblue\n")
        spoken(PictureRequest(prompt=prompt, negative=prompt, model="pocket", wildcards=(str(folder),)), 3)

    def as_tags(_folder: Path) -> None:
        if has_tags(prompt):
            take_tags(prompt, {"ink": "/ink.safetensors"}, ("/loras",))

    def as_words(_folder: Path) -> None:
        parse(prompt)
        notes((prompt, ""), weights=True)
        unfollowed((prompt,))
        drawn_spans(prompt)

    return as_spoken, as_tags, as_words


# --- files -------------------------------------------------------------------------------------------------------------


def _writing(name: str, content: bytes | Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda folder: content(folder / name) if callable(content) else (folder / name).write_bytes(content)


def _files(sound: str, rng: random.Random, count: int) -> Iterator[tuple[str, bytes | Callable[[Path], object]]]:
    for index in range(count):
        yield f"changed by chance {index}", _changed(sound, rng).encode(errors="replace")
    yield "bytes by chance", rng.randbytes(3000)
    for coding in ("utf-8-sig", "utf-16", "utf-32", "latin-1", "utf-7", "shift_jis"):
        yield f"in {coding}", sound.encode(coding)
    yield "nothing", b""
    yield "only a mark", b"\xef\xbb\xbf"
    yield "zeros", bytes(9000)
    yield "lines of old Macs", sound.replace("\n", "\r").encode()
    yield "one line without end", b"a," * 3_000_000
    yield "lines without end", b"a\n" * 1_000_000
    yield "a quote without end", b'name,prompt\n"' + b"a" * 3_000_000
    yield "a folder", lambda path: path.mkdir()
    yield "a named pipe", os.mkfifo
    yield "a device", lambda path: path.symlink_to("/dev/zero")
    yield "a link to itself", lambda path: path.symlink_to(path.name)
    yield "a link to nothing", lambda path: path.symlink_to("/nowhere/at/all")


def _changed(text: str, rng: random.Random) -> str:
    letters = list(text)
    for _ in range(rng.choice((1, 4, 20))):
        letters[rng.randrange(len(letters))] = rng.choice(_SIGNS)
    if rng.random() < 0.2:
        letters[rng.randrange(len(letters))] *= rng.choice((100, 9000))
    return "".join(letters)


def _odd_styles() -> Iterator[tuple[str, bytes]]:
    head = "name,prompt,negative_prompt\n"
    yield "that repeat the prompt", (head + "".join(f'style {index},"{{prompt}}, {{prompt}}",\n' for index in range(60))).encode()
    yield "that repeat it often", (head + 'a,"' + "{prompt}" * 100_000 + '",\nb,"' + "{prompt}" * 100_000 + '",\n').encode()
    yield "of one name", (head + "a,b,c\n" * 50_000).encode()
    yield "with many columns", (",".join(f"c{index}" for index in range(50_000)) + ",name,prompt\n").encode()
    yield "with escape signs", (head + "\x1b[2J\x1b]0;owned\x07,\u202egnp,\n").encode()
    yield "with a field of a megabyte", (head + "a," + "b" * 1_000_000 + ",\n").encode()


def _odd_wildcards() -> Iterator[tuple[str, bytes]]:
    yield "that name themselves", b"__colour__\n"
    yield "that name themselves twice", b"__colour__ __colour__\n"
    yield "that name all", b"__*__ __*__ __*__\n"
    yield "that repeat much", b"{9999$$a|b}{2-9999999$$a|b}\n" * 900
    yield "of long lines", (b"a" * 150_000 + b"\n") * 9
    yield "nested deeply", b"{" * 50_000 + b"a" + b"}" * 50_000
    yield "of weights", b"1e999::a\n" + b"9" * 400 + b"::b\n0::c\n-1::d\n"
    yield "of weights of nothing", b"0::a\n0::b\n"


# --- prompts -----------------------------------------------------------------------------------------------------------


def _prompts(rng: random.Random) -> Iterator[tuple[str, str]]:
    for index in range(80):
        yield f"changed by chance {index}", _changed(rng.choice(_PROMPTS), rng)
    for index in range(20):
        yield f"signs by chance {index}", "".join(rng.choices(_SIGNS + "abc", k=rng.choice((10, 300, 5000))))
    for name, piece in {
        "opening brackets": "(",
        "closing brackets": ")",
        "square brackets": "[",
        "curly brackets": "{",
        "bars": "|",
        "backslashes": "\\",
        "pairs of brackets": "()",
        "weights": "(a:1.1)",
        "underscores": "_",
        "wildcards": "__colour__",
        "choices": "{a|b}",
        "tags": "<lora:ink:1>",
        "half tags": "<lora:",
        "BREAK": " BREAK ",
        "AND": " AND ",
        "dollars": "$$",
        "variables": "${a=b}",
        "swaps": "[a:b:",
        "emoji": "\U0001f31e",
        "accents": "a" + "\u0301" * 50,
        "zeros": "\0",
        "escape signs": "\x1b[2J",
        "spaces": " ",
        "line ends": "\n",
    }.items():
        for count in (3000, 60_000):
            yield f"{count} {name}", piece * count
    yield "half a sign", "a \ud800 sun"
    yield "a large choice", "{" + "|".join(map(str, range(50_000))) + "}"
    yield "a choice of all", "{50000$$" + "|".join(map(str, range(50_000))) + "}"
    yield "weights without end", "(a:" + "9" * 100_000 + ")"
    yield "weights that are none", "(a:" + "9" * 100_000 + "x)"
    yield "a name like a path", "__../../etc/passwd__ __/etc/passwd__ __~/a__"


def _chosen(rng: random.Random) -> Iterator[tuple[str, tuple[Style, ...]]]:
    double = Style(name="double", prompt="{prompt}, {prompt}", negative="{prompt}{prompt}")
    yield "one twice the prompt", (double,)
    yield "sixty twice the prompt", (double,) * 60
    yield "ten thousand that do nothing", (Style(name="a", prompt="", negative=""),) * 10_000
    yield "ten thousand that add", (Style(name="a", prompt="word " * 20, negative="word"),) * 10_000
    for index in range(6):
        texts = ["".join(rng.choices("{prompt}a, ", k=200)) for _ in range(5)]
        yield f"by chance {index}", tuple(Style(name=str(place), prompt=text, negative=text) for place, text in enumerate(texts))
