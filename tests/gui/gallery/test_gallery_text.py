"""What the gallery says of a picture."""

from datetime import datetime

import pytest

from halftone.gui.gallery.gallery_text import facts
from halftone.metadata.reading import Parameters
from halftone.session.pictures.gallery_state import Detail


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("v1.9.0", "A1111 v1.9.0"),
        ("f2.0.1", "Forge f2.0.1"),
        ("Halftone 0.1.0", "Halftone 0.1.0"),
        ("ComfyUI", "ComfyUI"),
        ("9", "9"),
    ],
)
def test_the_program_has_its_name(version: str, shown: str) -> None:
    detail = Detail(
        id=1, path="a.png", made_at=datetime(2026, 1, 2, 3, 4), said=Parameters(prompt="a", fields={"Version": version})
    )
    assert dict(facts(detail, str))["Program"] == shown
