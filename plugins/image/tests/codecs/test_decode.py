from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from pipeplug import ArgumentError, DecodeError
from pipeplug_image.codecs.decode import Decoder, decode, decode_region
from pipeplug_image.codecs.options import DecodeOptions

FORMATS = ["JPEG", "PNG", "WebP", "TIFF", "BMP", "GIF"]
MODES = {"RGB": "RGB", "gray": "L", "RGBA": "RGBA"}
RAW = DecodeOptions(mode="unchanged", dtype="unchanged")


def pillow(data, mode):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if mode == "L" and image.format == "JPEG":
        image.draft("L", image.size)
    pixels = np.asarray(image.convert(mode))
    return pixels.reshape(*pixels.shape[:2], -1)


def of_format(samples, format, **options):
    return samples.file(format, "P" if format == "GIF" else "RGB", **options)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("format", "stored"),
    [("JPEG", m) for m in ("L", "RGB", "CMYK")]
    + [("PNG", m) for m in ("1", "L", "LA", "RGB", "RGBA", "P")]
    + [("WebP", m) for m in ("RGB", "RGBA")]
    + [("TIFF", m) for m in ("1", "L", "LA", "RGB", "RGBA", "P", "CMYK")]
    + [("BMP", m) for m in ("1", "L", "RGB", "P")]
    + [("GIF", m) for m in ("L", "P")],
)
def test_pixels_equal_those_of_pillow(decoder, samples, format, stored, mode):
    data = samples.file(format, stored)
    result = decoder.decode(data, DecodeOptions(mode=mode))
    reference = pillow(data, "RGB" if stored in ("P", "CMYK") and mode == "gray" else MODES[mode])
    if reference.shape[2] != result.shape[2]:
        reference = np.asarray(Image.fromarray(reference).convert("L"))[:, :, None]
    bound = 1 if mode == "gray" else 0  # the luma that a JPEG stores, and OpenCV's rounding of one that is computed
    assert np.abs(result.astype(int) - reference).max() <= bound
    assert result.flags.c_contiguous
    assert result.flags.writeable


def test_grey_of_a_jpeg_is_the_luma_that_it_stores(decoder, samples):
    data = samples.file("JPEG")
    image = Image.open(io.BytesIO(data))
    image.draft("L", image.size)
    assert np.array_equal(decoder.decode(data, DecodeOptions(mode="gray"))[:, :, 0], np.asarray(image))


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_unchanged_keeps_the_channels(decoder, samples, mode):
    result = decoder.decode(samples.file("PNG", mode), RAW)
    expected = np.asarray(samples.images[mode])
    assert np.array_equal(result, expected.reshape(*expected.shape[:2], -1))


def test_a_palette_gives_its_colours(decoder, samples):
    for format in ("PNG", "GIF", "BMP", "TIFF"):
        result = decoder.decode(samples.file(format, "P"), RAW)
        assert np.array_equal(result, np.asarray(samples.images["P"].convert("RGB")))


def test_alpha_is_dropped_not_blended(decoder, samples):
    assert np.array_equal(decoder.decode(samples.file("PNG", "RGBA")), samples.rgba[:, :, :3])
    assert np.array_equal(
        decoder.decode(samples.file("WebP", "RGBA", lossless=True, exact=True)), samples.rgba[:, :, :3]
    )
    transparent = samples.file("PNG", "P", transparency=3)
    assert np.array_equal(decoder.decode(transparent), np.asarray(samples.images["P"].convert("RGB")))


@pytest.mark.parametrize("color", [(200, 30, 60), (0, 0, 0), (255, 255, 255), (10, 220, 120)])
def test_cmyk_gives_the_colour_it_was_made_of(decoder, samples, color):
    image = Image.new("RGB", (32, 24), color).convert("CMYK")
    data = samples.file("JPEG", image=image, quality=100, subsampling=0)
    assert b"Adobe" in data
    assert np.abs(decoder.decode(data).astype(int) - color).max() <= 2
    assert np.abs(decoder.decode(data, RAW).astype(int) - np.asarray(image)).max() <= 2
    assert np.array_equal(decoder.decode(data, RAW), np.asarray(Image.open(io.BytesIO(data))))


def test_ycck_gives_what_pillow_gives(decoder, samples):
    data = bytearray(samples.file("JPEG", "CMYK"))
    data[data.index(b"Adobe") + 11] = 2  # the transform: the same numbers read as YCCK
    image = Image.open(io.BytesIO(bytes(data)))
    assert np.array_equal(decoder.decode(bytes(data), RAW), np.asarray(image))
    assert np.abs(decoder.decode(bytes(data)).astype(int) - np.asarray(image.convert("RGB"))).max() <= 2


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WebP", "TIFF"])
def test_orientation_equals_exif_transpose(decoder, samples, format, orientation):
    data = samples.file(format, orientation=orientation)
    assert np.array_equal(decoder.decode(data), pillow(data, "RGB"))
    plain = decoder.decode(samples.file(format, image=samples.images["RGB"]))
    assert np.array_equal(decoder.decode(data, DecodeOptions(orient=False)), plain)


@pytest.mark.parametrize("format", ["png", "tiff"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_sixteen_bits_are_kept_or_divided_by_257(decoder, samples, format, channels):
    pixels = np.dstack((samples.deep, samples.deep[:, :, :1] ^ 0x5555))[:, :, :channels]
    order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[channels]
    data = cv2.imencode(f".{format}", np.ascontiguousarray(pixels[:, :, order]))[1].tobytes()
    color = decoder.decode(data, RAW)
    assert color.dtype == np.uint16
    assert np.array_equal(color, pixels[:, :, : color.shape[2]])
    bytes_ = decoder.decode(data, DecodeOptions(mode="unchanged"))
    assert np.array_equal(bytes_, np.rint(color / 257).astype(np.uint8))
    rgb = decoder.decode(data, DecodeOptions(dtype="unchanged"))
    assert np.array_equal(rgb, np.repeat(pixels, 3, axis=2) if channels == 1 else pixels[:, :, :3])
    opaque = decoder.decode(data, DecodeOptions(mode="RGBA", dtype="unchanged"))
    if color.shape[2] != 4:
        assert (opaque[:, :, 3] == 65535).all()


def test_a_ramp_of_sixteen_bits_is_not_clipped(decoder, samples):
    ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    data = samples.file("PNG", image=Image.fromarray(ramp))
    assert np.array_equal(decoder.decode(data, RAW)[:, :, 0], ramp)
    assert np.array_equal(decoder.decode(data, DecodeOptions(mode="gray"))[:, :, 0], np.rint(ramp / 257))


def test_sixteen_bits_with_alpha_and_interlaced(decoder, samples):
    pixels = np.dstack((samples.deep, samples.deep[:, :, 0] // 2))
    data = bytearray(cv2.imencode(".png", pixels[:, :, [2, 1, 0, 3]])[1].tobytes())
    assert np.array_equal(decoder.decode(bytes(data), RAW), pixels)


def test_numbers_without_a_white_stay_what_they_are(decoder, samples):
    for dtype in (np.float32, np.int32):
        pixels = samples.deep[:, :, 0].astype(dtype)
        data = samples.file("TIFF", image=Image.fromarray(pixels))
        result = decoder.decode(data, RAW)
        assert result.dtype == dtype
        assert np.array_equal(result[:, :, 0], pixels)
        with pytest.raises(DecodeError, match='unknown range; decode it with dtype="unchanged"'):
            decoder.decode(data)


def test_the_content_decides_not_the_name(decoder, samples, tmp_path):
    path = tmp_path / "photo.jpg"
    path.write_bytes(samples.file("PNG"))
    assert np.array_equal(decoder.decode(path.read_bytes()), samples.rgb)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_any_buffer_of_bytes_will_do(decoder, samples, kind):
    assert np.array_equal(decoder.decode(kind(samples.file("PNG"))), samples.rgb)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("part", [0.4, 0.6, 0.95])
def test_a_cut_file_is_an_error(decoder, samples, format, part):
    data = of_format(samples, format)
    with pytest.raises(DecodeError, match=f"{format} .*(cut|broken|no picture)"):
        decoder.decode(data[: int(len(data) * part)])


@pytest.mark.parametrize("format", FORMATS)
def test_a_cut_of_one_byte_is_an_error(decoder, samples, format):
    data = of_format(samples, format)[:-1]
    with pytest.raises(DecodeError, match=f"{format} of 53 x 37 pixels is cut or damaged"):
        decoder.decode(data)
    with pytest.raises(DecodeError, match=f"{format} of 53 x 37 pixels is cut or damaged"):
        decoder.decode_region(data, (0, 0, 2, 2))


@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "BMP"])
def test_what_there_is_of_a_cut_file_can_be_had(decoder, samples, format):
    image = Image.fromarray(samples.noise(160, 200))
    data = samples.file(format, image=image)
    whole = decoder.decode(data)
    assert decoder.recover(data).damage is None
    assert np.array_equal(decoder.recover(data).pixels, whole)
    found = decoder.recover(data[: len(data) * 6 // 10])
    assert found.damage is not None
    assert found.pixels.shape == whole.shape
    rows = slice(100, 140) if format == "BMP" else slice(20, 60)  # BMP begins at the bottom
    assert np.array_equal(found.pixels[rows], whole[rows])


def test_a_cut_picture_is_recovered_upright(decoder, samples):
    data = samples.file("JPEG", orientation=6, image=Image.fromarray(samples.noise(64, 96)))
    assert decoder.recover(data[: len(data) // 2]).pixels.shape == (96, 64, 3)


def test_what_is_missing_is_not_what_memory_held(samples):
    image = Image.fromarray(np.full((64, 64, 4), 77, np.uint8), "CMYK")
    data = samples.file("JPEG", image=image)
    with Decoder() as decoder:
        found = [decoder.recover(data[:-40], RAW).pixels for _ in range(3)]
    assert all(np.array_equal(pixels, found[0]) for pixels in found)


def test_nothing_to_recover_is_an_error(decoder, samples):
    data = samples.file("WebP")
    with pytest.raises(DecodeError, match="WebP is broken"):
        decoder.recover(data[: len(data) // 2])
    with pytest.raises(DecodeError, match="empty"):
        decoder.recover(b"")


def test_bad_codes_in_a_jpeg_are_an_error(samples):
    data = bytearray(samples.file("JPEG", image=Image.fromarray(samples.noise(64, 64))))
    data[len(data) // 2 : len(data) // 2 + 16] = b"\xff\0" * 8  # no code is all ones
    with Decoder() as decoder, pytest.raises(DecodeError, match="64 x 64 pixels is broken: Corrupt JPEG data"):
        decoder.decode(bytes(data))


def test_harmless_bytes_are_none(decoder, samples):
    data = samples.file("JPEG")
    whole = decoder.decode(data)
    assert np.array_equal(decoder.decode(data + b"trailing bytes"), whole)
    assert np.array_equal(decoder.decode(data[:-2] + b"\0\0" + data[-2:]), whole)


def test_the_limit_holds_before_memory_is_taken(decoder, samples):
    data = bytearray(samples.file("JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = (20000).to_bytes(2, "big") * 2
    for call in (decoder.decode, decoder.recover):
        with pytest.raises(DecodeError, match="20000 x 20000 = 400,000,000 pixels is larger than the limit"):
            call(bytes(data))
    with pytest.raises(DecodeError, match="limit of 100"):
        decoder.decode(samples.file("PNG"), DecodeOptions(max_pixels=100))


def test_pillows_own_limit_is_not_in_the_way(decoder, samples, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    for format in ("JPEG", "PNG", "BMP", "GIF"):
        assert decoder.decode(of_format(samples, format)).shape == (37, 53, 3)
    for format in ("WebP", "TIFF"):  # its readers ask for the limit themselves
        with pytest.raises(DecodeError, match=r"1961 pixels.*exceeds limit of 20 pixels"):
            decoder.decode(of_format(samples, format))


@pytest.mark.parametrize("format", FORMATS)
def test_the_result_goes_where_it_is_wanted(decoder, samples, format):
    data = of_format(samples, format)
    expected = decoder.decode(data)
    for out in (
        np.zeros((37, 53, 3), np.uint8),
        np.zeros((37, 60, 3), np.uint8)[:, 3:56],
        np.zeros((53, 37, 3), np.uint8).swapaxes(0, 1),
    ):
        assert decoder.decode(data, out=out) is out
        assert np.array_equal(out, expected)


def test_a_turned_result_goes_where_it_is_wanted(decoder, samples):
    data = samples.file("JPEG", orientation=5)
    out = np.zeros((53, 37, 3), np.uint8)
    assert decoder.decode(data, out=out) is out
    assert np.array_equal(out, decoder.decode(data))


def test_an_output_that_does_not_fit_is_refused(decoder, samples):
    for out in (np.zeros((37, 53, 1), np.uint8), np.zeros((37, 53, 3), np.uint16)):
        with pytest.raises(ArgumentError, match=r"the picture is uint8 \(37, 53, 3\), but `out` is"):
            decoder.decode(samples.file("PNG"), out=out)


def test_both_paths_give_the_same_pixels(samples):
    for subsampling in (0, 1, 2):
        for progressive in (False, True):
            image = Image.fromarray(samples.noise(61, 83))
            data = samples.file("JPEG", image=image, subsampling=subsampling, progressive=progressive)
            for mode in ("RGB", "gray", "RGBA", "unchanged"):
                options = DecodeOptions(mode=mode)
                with Decoder() as turbo, Decoder(turbo=False) as plain:
                    assert np.array_equal(turbo.decode(data, options), plain.decode(data, options))


def test_one_call_needs_no_decoder(samples):
    data = samples.file("PNG")
    assert np.array_equal(decode(data), samples.rgb)
    assert np.array_equal(decode_region(data, (3, 4, 5, 6)), samples.rgb[3:8, 4:10])
