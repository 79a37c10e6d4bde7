"""A part of the Create form with a list of files that have to fit the model: looked at anew with every model that is chosen."""

from collections.abc import Callable

from halftone.contract.facts import ModelFacts
from halftone.gui.controller import Controller
from halftone.gui.create.rows.folded_row import FoldedPart, no_model_words

Check = Callable[[ModelFacts], None]
"""Raises HalftoneError where something does not fit a model. Called on another thread."""


class FittedPart(FoldedPart):
    """What does not fit is told by `problem` until it is removed, or another model is chosen."""

    extra = True

    def __init__(self, controller: Controller, title: str, tip: str) -> None:
        super().__init__(title, tip)
        self._controller = controller
        self._looks = 0
        controller.model_selected.connect(self.look_at_fit)
        controller.models_changed.connect(self.look_at_fit)

    def listed_check(self) -> Check | None:
        """Of all that is listed, None where nothing is."""
        raise NotImplementedError

    def look_at_fit(self) -> None:
        """Another model may be there now, or other files. What was said before stands until the answer comes."""
        self._looks += 1
        look, check, model = self._looks, self.listed_check(), self._controller.model
        if check is None:
            if self._unfit:
                self.fits()
        elif model is not None:
            self._controller.background.run(
                lambda: check(model),
                lambda _none: self.fits() if look == self._looks else None,
                lambda error: self.does_not_fit(error) if look == self._looks else None,
                receiver=self,
            )

    def try_first(self, check: Check, then: Callable[[], None]) -> None:
        """Add something only where it fits the model; why not is said below the list."""
        model = self._controller.model
        if model is None:
            self.say(no_model_words())
        else:
            self._controller.background.run(lambda: check(model), lambda _none: then(), self.refused, receiver=self)
