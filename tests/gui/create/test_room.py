"""What the foot of the form tells of the memory of the next picture."""

import pytest

from halftone.gui.create.form.memory_estimate import peak_words
from halftone.gui.i18n import set_language
from halftone.health.forecasts.memory_forecast import Fit, Way
from halftone.health.forecasts.picture_memory import Forecast

TILED = "Decoded in tiles."
IN_VAIN = "Not enough even with tiled decoding."


@pytest.mark.parametrize(
    ("fit", "tiled", "said"),
    [("fits", True, TILED), ("tight", True, TILED), ("no", True, IN_VAIN), ("no", False, ""), ("fits", False, "")],
)
def test_tiles_are_not_promised_of_what_does_not_fit(fit: Fit, tiled: bool, said: str) -> None:
    set_language("en")
    words = peak_words(Forecast(peak=9 * 10**9, pictures=0, way=Way("none", tiled=tiled), free=8 * 10**9, fit=fit))
    assert [one for one in (TILED, IN_VAIN) if one in words] == ([said] if said else [])
