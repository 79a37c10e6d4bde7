"""What a confined process cannot do, by name."""

from typing import Final, Literal, get_args

Wall = Literal["writing", "reading", "network", "processes", "memory"]
"""writing: it makes, changes and removes no file but the one it was given; reading: it opens none either; network: it connects to
nothing; processes: it starts none and reaches none; memory: it has only so much.
"""
WALLS: Final[tuple[Wall, ...]] = get_args(Wall)
ALL: Final[frozenset[Wall]] = frozenset(WALLS)
