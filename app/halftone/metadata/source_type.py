"""IPTC's digital source type, which tells sites and programs that a model made a picture, or changed one.

Sources: the IPTC Photo Metadata Standard 2023.1 for the property, https://cv.iptc.org/newscodes/digitalsourcetype for its values.
"""

import re
from collections.abc import Mapping
from typing import Final

from halftone.contract.request import Inputs

_MADE: Final = "trainedAlgorithmicMedia"
_CHANGED: Final = "compositeWithTrainedAlgorithmicMedia"
"""A part of another picture is still there."""
_VALUES: Final = "http://cv.iptc.org/newscodes/digitalsourcetype/"
_SAID: Final = re.compile(rf"DigitalSourceType\W{{1,9}}{re.escape(_VALUES)}(\w{{1,60}})")
_KEYS: Final = ("XML:com.adobe.xmp", "xmp")
"""Names of XMP in PNG and elsewhere, as Pillow has them."""


def source_type(request: Inputs) -> str:
    """The type of a request's pictures."""
    return _CHANGED if request.image is not None and request.masked else _MADE


def source_type_in(texts: Mapping[str, str]) -> str:
    """The type that a picture's texts name; "" for none."""
    found = next(filter(None, (_SAID.search(texts.get(key, "")) for key in _KEYS)), None)
    return "" if found is None else found[1]


def xmp_of(kind: str) -> bytes:
    """XMP with this type; empty for none."""
    if not kind:
        return b""
    said = f'xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" Iptc4xmpExt:DigitalSourceType="{_VALUES}{kind}"'
    return (
        '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/">'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        f'<rdf:Description rdf:about="" {said}/></rdf:RDF></x:xmpmeta><?xpacket end="w"?>'
    ).encode()
