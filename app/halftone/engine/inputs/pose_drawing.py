"""OpenPose's picture of poses, which ControlNets were trained with: a black ground, coloured limbs and joints.

Joints, limbs, colours and widths are those of lllyasviel's annotator (controlnet_aux, open_pose/util.py).
"""

import math
from collections.abc import Sequence
from colorsys import hsv_to_rgb
from itertools import pairwise
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from halftone.engine.inputs.preprocessors import Pixels

Joint = tuple[float, float] | None
"""(x, y) in pixels; None for one that is not seen."""
_SHOULDERS: Final = 5, 6
"""COCO's numbers of the left and the right one."""
_OF_COCO: Final = (0, None, 6, 8, 10, 5, 7, 9, 12, 14, 16, 11, 13, 15, 2, 1, 4, 3)
"""COCO's number of each of OpenPose's 18 joints: nose, neck (which COCO lacks), then from the shoulder to the wrist and from the
hip to the ankle, each on the right and on the left; eyes and ears, the right one first.
"""
_NOSE, _NECK = 0, 1
_CHAINS: Final = (
    (_NECK, 2),
    (_NECK, 5),
    (2, 3, 4),
    (5, 6, 7),
    (_NECK, 8, 9, 10),
    (_NECK, 11, 12, 13),
    (_NECK, _NOSE, 14, 16),
    (_NOSE, 15, 17),
)
"""Limbs in the order in which they are drawn and coloured."""
_COLOURS: Final = tuple(tuple(round(255 * part) for part in hsv_to_rgb(place / 18, 1.0, 1.0)) for place in range(18))
"""Eighteen hues, evenly spaced from red."""
_LIMB_SHARE: Final = 0.6
"""How bright a limb is beside the joint of its number."""
_HALF_WIDTH: Final = 4
"""Of a limb, and the radius of a joint, in pixels."""


def openpose_joints(points: NDArray[Any], scores: NDArray[Any], threshold: float, size: tuple[int, int]) -> list[Joint]:
    """COCO's 17 keypoints as OpenPose's 18 joints. points: (17, 2); scores: (17,); size: (width, height) of the picture. The
    neck is the middle of the shoulders where both are seen. OpenPose finds none outside the picture, so none is drawn there.
    """
    inside = ((points >= 0) & (points < size)).all(axis=1)  # False for NaN
    seen = inside & (scores > threshold)
    own: list[Joint] = [(float(x), float(y)) if is_seen else None for (x, y), is_seen in zip(points, seen, strict=True)]
    left, right = (own[index] for index in _SHOULDERS)
    neck = None if left is None or right is None else ((left[0] + right[0]) / 2, (left[1] + right[1]) / 2)
    return [neck if index is None else own[index] for index in _OF_COCO]


def drawn_poses(people: Sequence[Sequence[Joint]], size: tuple[int, int]) -> Pixels:
    """All of them on one picture. people: OpenPose's joints of each; size: (width, height)."""
    canvas = np.zeros((size[1], size[0], 3), np.uint8)
    limbs = [limb for chain in _CHAINS for limb in pairwise(chain)]
    for joints in people:
        for (first, second), colour in zip(limbs, _COLOURS, strict=False):
            if (begin := joints[first]) is not None and (end := joints[second]) is not None:
                _draw_limb(canvas, begin, end, tuple(int(part * _LIMB_SHARE) for part in colour))
        for joint, colour in zip(joints, _COLOURS, strict=True):
            if joint is not None:
                cv2.circle(canvas, (int(joint[0]), int(joint[1])), _HALF_WIDTH, colour, thickness=-1)
    return canvas


def _draw_limb(canvas: Pixels, begin: tuple[float, float], end: tuple[float, float], colour: tuple[int, ...]) -> None:
    """A filled ellipse from one joint to the other, with centre, axes and angle cut off to whole numbers."""
    across, down = begin[0] - end[0], begin[1] - end[1]
    middle = int((begin[0] + end[0]) / 2), int((begin[1] + end[1]) / 2)
    axes = int(math.hypot(across, down) / 2), _HALF_WIDTH
    outline = cv2.ellipse2Poly(middle, axes, int(math.degrees(math.atan2(down, across))), 0, 360, 1)
    cv2.fillConvexPoly(canvas, np.array(outline), colour)
