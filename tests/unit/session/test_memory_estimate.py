"""Whether a picture surely or likely lacks memory."""

import pytest

from halftone.session.pictures.memory_estimate import lacks_memory


@pytest.mark.parametrize(
    ("peak", "most", "free", "lacks"),
    [
        (10, None, None, None),
        (10, 20, 15, None),
        (10, 20, 9, "likely"),
        (10, 9, 9, "likely"),  # what is computed may be too much
        (20, 9, None, "sure"),
        (20, 9, 30, "sure"),
        (20, None, 9, "likely"),
    ],
)
def test_a_shortage_of_memory(peak: int, most: int | None, free: int | None, lacks: str | None) -> None:
    assert lacks_memory(peak, most, free) == lacks
