"""Whether a JPEG is plain: native/headers.c in Python, for installations without the compiled kernels.

A file is plain when it is what cameras and libraries write, from the first marker to the last, and every table that it
uses is whole. Decoders that do not notice what is missing get no other.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeplug_image.codecs.exif import exif_orientation, xmp_orientation

_LARGEST_SIDE = 65500
_MOST_SCANS = 500
_MOST_BITS = 10
_COEFFICIENTS = 64
_EXIF, _XMP = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"


class _OutOfTheOrdinaryError(Exception):
    """Somebody else is to judge the file."""


class _Component(NamedTuple):
    id: int
    across: int
    down: int
    table: int


def read_row(data: bytes) -> tuple[int, int, int, int, int, int]:
    """Kind, height, width, components, orientation and end of a file, as `codecs.headers` describes them."""
    try:
        return _Reader(data).read()
    except (_OutOfTheOrdinaryError, IndexError):
        return 0, 0, 0, 0, 0, 0


def _expect(what: bool) -> None:
    if not what:
        raise _OutOfTheOrdinaryError


class _Reader:
    """Goes through a file; a method a segment, which raises when it is out of the ordinary."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 2
        self.kind = 0
        self.size = (0, 0)
        self.components: list[_Component] = []
        self.quantizations: set[int] = set()
        self.codes: set[tuple[int, int]] = set()  # class and place
        self.interval = 0
        self.scans = 0
        self.missing: list[list[int]] = []  # low bits of coefficients that no scan has brought yet, -1 for all
        self.other_colors = False
        self.exif: int | None = None
        self.xmp: int | None = None

    def read(self) -> tuple[int, int, int, int, int, int]:
        data = self.data
        _expect(data.startswith(b"\xff\xd8"))
        while True:
            at = self.at
            _expect(data[at] == 0xFF)
            marker = data[at + 1]
            if marker == 0xD9:
                self._check_whole()
                orientation = self.exif or self.xmp or 1
                return self.kind, *self.size, len(self.components), orientation, at + 2
            length = data[at + 2] << 8 | data[at + 3]
            _expect(length >= 2 and at + 2 + length <= len(data))
            self.at = at + 2 + length
            self._take_segment(marker, data[at + 4 : self.at])

    def _take_segment(self, marker: int, body: bytes) -> None:
        if marker in (0xC0, 0xC2):
            self._take_frame(marker, body)
        elif marker == 0xC4:
            self._take_codes(body)
        elif marker == 0xDA:
            self._take_scan(body)
            self._pass_pixels()
        elif marker == 0xDB:
            _expect(self.scans == 0)
            self._take_quantization(body)
        elif marker == 0xDD:
            _expect(len(body) == 2)
            self.interval = body[0] << 8 | body[1]
        else:
            _expect(marker & 0xF0 == 0xE0 or marker == 0xFE)
            if self.scans == 0:
                self._take_application(marker, body)

    def _take_application(self, marker: int, body: bytes) -> None:
        if marker == 0xE1 and self.exif is None and body.startswith(_EXIF):
            self.exif = exif_orientation(body[len(_EXIF) :])
        elif marker == 0xE1 and body.startswith(_XMP):
            self.xmp = xmp_orientation(body)
        elif marker == 0xEE and len(body) >= 12 and body.startswith(b"Adobe") and body[11] != 1:
            self.other_colors = True

    def _take_quantization(self, body: bytes) -> None:
        _expect(len(body) % 65 == 0)
        for place in body[::65]:
            _expect(place <= 3)  # tables of 16 bits are more than 3 as well
            self.quantizations.add(place)

    def _take_codes(self, body: bytes) -> None:
        while body:
            kind, place, counts = body[0] >> 4, body[0] & 15, body[1:17]
            total = sum(counts)
            symbols = body[17 : 17 + total]
            _expect(len(counts) == 16 and kind <= 1 and place <= 3 and total <= 256 and len(symbols) == total)
            code = 0
            for length, count in enumerate(counts, 1):
                code += count
                _expect(code < 1 << length)
                code <<= 1
            _expect(all((symbol & 15) <= _MOST_BITS if kind else symbol <= _MOST_BITS + 1 for symbol in symbols))
            self.codes.add((kind, place))
            body = body[17 + total :]

    def _take_frame(self, marker: int, body: bytes) -> None:
        _expect(self.kind == 0 and body[0] == 8)
        self.kind = 1 if marker == 0xC0 else 2
        self.size = body[1] << 8 | body[2], body[3] << 8 | body[4]
        _expect(all(1 <= side <= _LARGEST_SIDE for side in self.size))
        _expect(body[5] in (1, 3) and len(body) == 6 + 3 * body[5])
        self.components = [
            _Component(body[at], body[at + 1] >> 4, body[at + 1] & 15, body[at + 2]) for at in range(6, len(body), 3)
        ]
        self.missing = [[-1] * _COEFFICIENTS for _ in self.components]
        _expect(len({each.id for each in self.components}) == len(self.components))
        _expect(all(each.table <= 3 for each in self.components))
        first, *others = self.components
        _expect(all((each.across, each.down) == (1, 1) for each in others or self.components))
        _expect(first.across in (1, 2, 4) and first.down in (1, 2, 4) and first.across * first.down <= 8)

    def _take_scan(self, body: bytes) -> None:
        count = body[0] if body else 0
        _expect(1 <= count <= len(self.components) and len(body) == 4 + 2 * count)
        self.scans += 1
        _expect(self.scans <= _MOST_SCANS)
        ids = [each.id for each in self.components]
        _expect(all(id in ids for id in body[1 : 1 + 2 * count : 2]))
        places = [ids.index(id) for id in body[1 : 1 + 2 * count : 2]]
        _expect(places == sorted(set(places)))
        _expect(all(self.components[place].table in self.quantizations for place in places))
        tables = [(each >> 4, each & 15) for each in body[2 : 2 + 2 * count : 2]]
        if self.kind == 1:
            _expect(self.scans == 1 and count == len(ids) and body[-3:] == b"\0\77\0")
            _expect(all(dc <= 1 and ac <= 1 for dc, ac in tables))
            _expect(all((0, dc) in self.codes and (1, ac) in self.codes for dc, ac in tables))
        else:
            self._take_bits(places, tables, body[-3], body[-2], body[-1] >> 4, body[-1] & 15)

    def _take_bits(
        self, places: list[int], tables: list[tuple[int, int]], first: int, last: int, high: int, low: int
    ) -> None:
        _expect(low <= 13 and high in (0, low + 1))
        _expect(first <= last < _COEFFICIENTS and len(places) == 1 if first else last == 0)
        for place, (dc, ac) in zip(places, tables, strict=True):
            _expect(((1, ac) if first else (0, dc)) in self.codes or (not first and high > 0))
            missing = self.missing[place]
            _expect(not first or missing[0] >= 0)
            for at in range(first, last + 1):
                _expect(missing[at] == (high or -1))
                missing[at] = low

    def _pass_pixels(self) -> None:
        """Goes over coded pixels to the marker after them."""
        data, start, restarts = self.data, self.at, 0
        at = start
        while True:
            at = data.find(b"\xff", at)
            _expect(at >= 0)
            marker = data[at + 1]
            if 0xD0 <= marker <= 0xD7:
                _expect(self.interval > 0 and marker == 0xD0 + restarts % 8)
                restarts += 1
            elif marker != 0:
                break
            at += 2
        _expect(at > start)
        self.at = at

    def _check_whole(self) -> None:
        """That the scans brought all coefficients, in colours that decoders take for what they are."""
        _expect(self.scans > 0)
        _expect(self.kind == 1 or not any(bits for each in self.missing for bits in each))
        named_rgb = [each.id for each in self.components] == list(b"RGB")
        _expect(len(self.components) == 1 or not (self.other_colors or named_rgb))
