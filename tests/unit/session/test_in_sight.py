"""What the canvas of Create shows, case by case."""

import pytest

from halftone.session.pictures.in_sight import Hand, Sight, in_sight, watches


@pytest.mark.parametrize(
    ("case", "hand", "sight"),
    [
        ("before the first picture", Hand(), "examples"),
        ("a picture of the history is selected, whatever model is chosen", Hand(selected="read"), "picture"),
        ("another one is selected and its file is not read yet", Hand(selected="unread"), "dots"),
        ("its file was deleted by another program", Hand(selected="unread"), "dots"),
        ("the first picture is being made", Hand(making=True), "dots"),
        ("Generate was pressed over an older picture", Hand(selected="read", making=True), "dots"),
        ("the first preview came", Hand(selected="read", making=True, preview=True), "preview"),
        ("the first of a batch is there, the second has no preview", Hand(selected="read", making=True, own=True), "picture"),
        ("the second of a batch has a preview", Hand(selected="read", making=True, own=True, preview=True), "preview"),
        (
            "the user looks at another one meanwhile",
            Hand(selected="read", making=True, following=False, preview=True),
            "picture",
        ),
        ("and that one is not read yet", Hand(selected="unread", making=True, following=False, preview=True), "dots"),
        ("the last picture was deleted meanwhile", Hand(making=True, following=False, preview=True), "dots"),
        ("the job failed", Hand(failed=True), "dots"),
        ("after that, a picture is selected", Hand(selected="read", failed=True), "picture"),
        ("the user canceled, and the selected picture is back", Hand(selected="read"), "picture"),
        ("a picture is made larger", Hand(selected="read", following=True), "picture"),
        ("a video plays", Hand(selected="read"), "picture"),
        ("the start picture is edited", Hand(selected="read", making=True, preview=True, editing=True), "editing"),
    ],
)
def test_only_what_is_at_hand_is_in_sight(case: str, hand: Hand, sight: Sight) -> None:
    assert in_sight(hand) == sight, case


@pytest.mark.parametrize(
    ("hand", "watched"),
    [
        (Hand(selected="read"), False),
        (Hand(selected="read", making=True), True),
        (Hand(selected="read", making=True, preview=True), True),
        (Hand(selected="read", making=True, own=True), False),
        (Hand(selected="read", making=True, following=False, preview=True), False),
    ],
)
def test_the_picture_in_the_making_is_watched(hand: Hand, watched: bool) -> None:
    assert watches(hand) == watched
