"""What `--ip-adapter` takes: an IP-Adapter, a picture, and how much it counts."""

import pytest

from halftone.cli.options.flags import ip_adapters_of
from halftone.cli.reports.json_objects import start_object
from halftone.cli.terminal.command_lines import extra_words
from halftone.contract.errors import HalftoneError
from halftone.contract.request import Extras, IpAdapter, PictureRequest


def test_what_is_typed_and_typed_again() -> None:
    given = ["/a/plus=/p/x.png", "/a/plus=/p/y:1.png", "/a/face=/p/z=1.png:0.5", "/a/plus=/p/w.png:0.25"]
    found = ip_adapters_of(given)
    assert found == (
        IpAdapter(path="/a/plus", images=("/p/x.png", "/p/y:1.png")),
        IpAdapter(path="/a/face", images=("/p/z=1.png",), scale=0.5),
        IpAdapter(path="/a/plus", images=("/p/w.png",), scale=0.25),
    )
    words = extra_words(Extras(ip_adapters=found))
    assert words[:2] == ["--ip-adapter", "/a/plus=/p/x.png:1"]
    assert ip_adapters_of(words[1::2]) == found


@pytest.mark.parametrize("text", ["=/p/a.png", "/a/plus="])
def test_without_one_of_both_the_form_is_told(text: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        ip_adapters_of([text])
    assert str(caught.value).startswith(f"--ip-adapter cannot be {text}. Use FILE=PICTURE[:STRENGTH], for instance")


def test_the_object_of_a_picture_names_them() -> None:
    asked = PictureRequest(prompt="a", ip_adapters=(IpAdapter(path="/a/plus", images=("/p/x.png",), scale=0.5),))
    assert start_object(asked) == {"ip_adapters": [{"path": "/a/plus", "images": ("/p/x.png",), "scale": 0.5}]}
