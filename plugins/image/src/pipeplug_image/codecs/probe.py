"""Finds the format of an encoded picture from its content, and reads its header."""

from __future__ import annotations

from pipeplug import DecodeError
from pipeplug_image.codecs.formats import bmp, gif, jpeg, png, tiff, webp
from pipeplug_image.codecs.header import Format, ImageHeader

_LOOKS_LIKE = (
    (b"\xef\xbb\xbf", "text with a byte order mark"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"<svg", "an SVG drawing"),
    (b"<?xml", "an XML document"),
    (b"<", "an HTML page"),
    (b"{", "JSON"),
    (b"version https://git-lfs", "a Git LFS pointer instead of the file"),
    (b"%PDF", "a PDF document"),
    (b"PK\3\4", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"8BPS", "a Photoshop document"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\0\0\0\x0cJXL ", "JPEG XL"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\x93NUMPY", "a NumPy array"),
)
_BRANDS = {b"avif": "AVIF", b"avis": "AVIF", b"heic": "HEIC", b"heix": "HEIC", b"mif1": "HEIF"}


def probe(data: bytes) -> ImageHeader:
    """The header of an encoded picture: JPEG, PNG, WebP, TIFF, BMP or GIF. Takes no memory for pixels.

    Raises DecodeError for data that is empty, too short, of another format (its first bytes are named) or whose header
    is cut or broken.
    """
    if data.startswith(jpeg.SIGNATURE):  # first, for it is on the hot path
        return jpeg.read_header(data)
    return _READERS[sniff(data)](data)


def sniff(data: bytes) -> Format:
    """The format that the first bytes show. Raises DecodeError when they show none."""
    if data.startswith(jpeg.SIGNATURE):
        return "JPEG"
    if data.startswith(png.SIGNATURE):
        return "PNG"
    if webp.is_webp(data):
        return "WebP"
    if data.startswith(tiff.SIGNATURES):
        return "TIFF"
    if data.startswith(gif.SIGNATURES):
        return "GIF"
    if bmp.is_bmp(data):
        return "BMP"
    raise DecodeError(_unknown(data))


def _unknown(data: bytes) -> str:
    if not data:
        return "the data is empty (0 bytes): the file was never written, or its download failed"
    if len(data) < 12:
        return f"the data is too short for a picture: {len(data)} bytes, {data!r}"
    return (
        f"unknown picture format: the data begins with {data[:12]!r}{_guess(data)}; "
        "JPEG, PNG, WebP, TIFF, BMP and GIF can be decoded"
    )


def _guess(data: bytes) -> str:
    start = data[:64].lstrip()
    if data[4:8] == b"ftyp":
        return f", which looks like {_BRANDS.get(data[8:12], 'an MP4 or HEIF container')}"
    for prefix, name in _LOOKS_LIKE:
        if data.startswith(prefix) or start.startswith(prefix):
            return f", which looks like {name}"
    return ""


def find_cut(data: bytes, header: ImageHeader) -> str | None:
    """What the structure of the file shows to be missing or damaged; None when it is whole."""
    return _CUTS[header.format](data, header)


_READERS = {
    "JPEG": jpeg.read_header,
    "PNG": png.read_header,
    "WebP": webp.read_header,
    "TIFF": tiff.read_header,
    "BMP": bmp.read_header,
    "GIF": gif.read_header,
}
_CUTS = {
    "JPEG": jpeg.find_cut,
    "PNG": png.find_cut,
    "WebP": webp.find_cut,
    "TIFF": tiff.find_cut,
    "BMP": bmp.find_cut,
    "GIF": gif.find_cut,
}
