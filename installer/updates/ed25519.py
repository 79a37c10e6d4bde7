"""Checks Ed25519 signatures (RFC 8032, section 5.1.7), and makes none: the tool that signs uses OpenSSL.

Python's standard library has no signatures. A library would have to lie in the environment, which is what an update may have to
build first, so the check is here. It sees public values only; that it takes a different time for each gives nothing away.
"""

import hashlib
from typing import Final, NamedTuple

_P: Final = 2**255 - 19
_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, _P) % _P
_ROOT: Final = pow(2, (_P - 1) // 4, _P)
"""A square root of -1."""


class _Point(NamedTuple):
    """x/z, y/z and t = x·y/z of a point of the curve -x² + y² = 1 + d·x²·y²."""

    x: int
    y: int
    z: int
    t: int


_ZERO: Final = _Point(0, 1, 1, 0)


def _add(a: _Point, b: _Point) -> _Point:
    """The complete formulas of RFC 8032, section 5.1.4, which hold for equal points, too."""
    left, right = (a.y - a.x) * (b.y - b.x) % _P, (a.y + a.x) * (b.y + b.x) % _P
    c, d = 2 * a.t * b.t * _D % _P, 2 * a.z * b.z % _P
    e, f, g, h = right - left, d - c, d + c, right + left
    return _Point(e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _times(scalar: int, point: _Point) -> _Point:
    total = _ZERO
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point = _add(point, point)
        scalar >>= 1
    return total


def _same(a: _Point, b: _Point) -> bool:
    return (a.x * b.z - b.x * a.z) % _P == 0 and (a.y * b.z - b.y * a.z) % _P == 0


def _decoded(data: bytes) -> _Point | None:
    """Read a point of 32 bytes (section 5.1.3); None where they name none, or name it in another than the one way."""
    number = int.from_bytes(data, "little")
    y, sign = number & (1 << 255) - 1, number >> 255
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P or (x == 0 and sign):
        return None
    x = _P - x if x & 1 != sign else x
    return _Point(x, y, 1, x * y % _P)


_Y: Final = 4 * pow(5, -1, _P) % _P
_BASE: Final = _decoded(_Y.to_bytes(32, "little"))


def is_signed(message: bytes, signature: bytes, public: bytes) -> bool:
    """Whether the signature of 64 bytes is the one of the message by the owner of the public key of 32 bytes."""
    if len(signature) != 64 or len(public) != 32 or _BASE is None:
        return False
    owner, commitment = _decoded(public), _decoded(signature[:32])
    scalar = int.from_bytes(signature[32:], "little")
    # A key whose order divides 8 would "sign" everything, and a scalar that is not reduced would be a second signature.
    if owner is None or commitment is None or scalar >= _ORDER or _same(_times(8, owner), _ZERO):
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % _ORDER
    return _same(_times(scalar, _BASE), _add(commitment, _times(challenge, owner)))
