"""The flags of saved pictures change the settings for one command, and refuse what cannot be saved."""

import pytest

from halftone.cli.options.flags import Flags, saving_of
from halftone.contract.errors import HalftoneError
from halftone.contract.request import Saving


def test_flags_change_what_is_saved() -> None:
    flags: Flags = {"file_names": "{date}/{seed}", "picture_format": "WEBP", "picture_quality": 80, "off_save_metadata": True}
    wanted = Saving(file_names="{date}/{seed}", picture_format="webp", picture_quality=80, save_metadata=False)
    assert saving_of(flags, Saving()) == wanted
    assert saving_of({}, wanted) == wanted
    assert saving_of({"save_metadata": True}, wanted).save_metadata


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"picture_quality": 101}, "--quality cannot be 101. Choose a value from 1 to 100."),
        ({"picture_format": "gif"}, "--format cannot be gif. Use png, jpg, webp or jxl."),
        ({"file_names": "a:b"}, "A file name cannot contain :. The pattern a:b cannot name files. Choose another pattern."),
        ({"save_metadata": True, "off_save_metadata": True}, "--no-metadata cannot be given together with --metadata."),
    ],
)
def test_refusals(flags: Flags, words: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        saving_of(flags, Saving())
    assert str(caught.value).startswith(words)
