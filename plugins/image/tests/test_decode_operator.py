"""`image.decode` in pipelines over files: every format, and what goes wrong with files in the wild."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from pipeplug import (
    ArgumentError,
    Batch,
    DecodeError,
    SampleFailed,
    SpecError,
    TensorSpec,
    TooManyFailuresError,
    eager,
    ops,
    pipeline,
)
from pipeplug_image.decode import Decode

HEIGHT, WIDTH = 23, 37
Y, X = np.mgrid[:HEIGHT, :WIDTH]
RGB = np.dstack((X * 6, Y * 10, (X + Y) * 4)).astype(np.uint8)
ALPHA = ((X * 3 + Y * 5) % 256).astype(np.uint8)
PICTURE = Image.fromarray(RGB)
PICTURES = {
    "L": PICTURE.convert("L"),
    "LA": Image.merge("LA", (PICTURE.convert("L"), Image.fromarray(ALPHA))),
    "RGB": PICTURE,
    "RGBA": Image.merge("RGBA", (*PICTURE.split(), Image.fromarray(ALPHA))),
    "P": PICTURE.quantize(64),
    "1": PICTURE.convert("1"),
    "CMYK": Image.merge("CMYK", (*PICTURE.split(), Image.fromarray(RGB[:, :, 0] // 3))),
}
FORMATS = {
    "JPEG": ("L", "RGB", "CMYK"),
    "PNG": ("L", "LA", "RGB", "RGBA", "P", "1"),
    "WebP": ("RGB", "RGBA"),
    "TIFF": ("L", "RGB", "RGBA", "P", "1", "CMYK"),
    "BMP": ("L", "RGB", "P", "1"),
    "GIF": ("L", "P"),
}
FILES = [(format, mode) for format, modes in FORMATS.items() for mode in modes]


def encoded(format="JPEG", mode="RGB", picture=None, **options):
    file = io.BytesIO()
    if format == "WebP":
        options["lossless"] = options["exact"] = True
    (picture or PICTURES[mode]).save(file, format, **options)
    return file.getvalue()


def write(folder, files):
    """Files named in the order in which they are read."""
    for place, (name, content) in enumerate(files.items()):
        (folder / f"{place:02d}-{name}").write_bytes(content)
    return str(folder)


def decode(root, *, batch_size=64, threads=2, on_error="raise", max_failures=None, then=None, **arguments):
    """The batches of one epoch."""

    @pipeline(batch_size=batch_size, threads=threads, on_error=on_error, max_failures=max_failures)
    def whole():
        content, _ = ops.read.files(root)
        out = ops.image.decode(content, **arguments)
        return out if isinstance(out, dict) else {"image": out if then is None else then(out)}

    with whole() as batches:
        return list(batches)


def pixels(batches, name="image"):
    return [np.asarray(sample) for batch in batches for sample in batch[name]]


def opened(content, mode="RGB"):
    image = np.asarray(Image.open(io.BytesIO(content)).convert(mode))
    return image.reshape(*image.shape[:2], -1)


def apart(a, b):
    assert a.shape == b.shape
    return np.abs(a.astype(float) - b).max()


def test_every_format_becomes_what_pillow_makes_of_it(tmp_path):
    files = {f"{mode}.{format}": encoded(format, mode) for format, mode in FILES}
    images = pixels(decode(write(tmp_path, files)))
    assert len(images) == len(FILES)
    for (format, mode), content, image in zip(FILES, files.values(), images, strict=True):
        assert apart(image, opened(content)) <= (2 if mode == "CMYK" else 0), (format, mode)


@pytest.mark.parametrize(("mode", "pillow"), [("gray", "L"), ("RGBA", "RGBA")])
def test_other_channels_are_pillows_too(mode, pillow, tmp_path):
    kinds = [("JPEG", "RGB"), ("PNG", "RGBA"), ("PNG", "P"), ("WebP", "RGBA"), ("BMP", "L"), ("GIF", "P")]
    files = {f"{kind}.{format}": encoded(format, kind) for format, kind in kinds}
    for image, content in zip(pixels(decode(write(tmp_path, files), mode=mode)), files.values(), strict=True):
        if mode == "RGBA":
            assert np.array_equal(image, opened(content, "RGBA"))
        else:
            assert apart(image, opened(content, pillow)) <= 1


def test_alpha_is_dropped_and_not_blended():
    assert np.array_equal(ops.image.decode(encoded("PNG", "RGBA")), RGB)


def test_unchanged_keeps_the_channels_that_are_stored(tmp_path):
    modes = {"L": "PNG", "LA": "PNG", "RGB": "JPEG", "RGBA": "PNG", "CMYK": "JPEG"}
    files = {f"{mode}.x": encoded(format, mode) for mode, format in modes.items()}
    images = pixels(decode(write(tmp_path, files), mode="unchanged"))
    for mode, content, image in zip(modes, files.values(), images, strict=True):
        assert np.array_equal(image, opened(content, mode)), mode  # CMYK: Pillow's polarity, 0 is no ink


def test_a_cmyk_among_rgb_is_a_picture_like_the_others(tmp_path):
    color = Image.new("CMYK", (16, 16), (0, 128, 255, 20))
    files = {f"{place}.jpg": encoded() for place in range(5)} | {"x.jpg": encoded(picture=color, quality=100)}
    (batch,) = decode(write(tmp_path, files), on_error="skip")
    assert not batch.failures
    assert apart(np.asarray(batch["image"][5]), np.asarray(color.convert("RGB"))) <= 2


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WebP", "TIFF"])
def test_orientations_are_applied_or_left(format, tmp_path):
    exif = Image.Exif()
    files = {}
    for orientation in range(1, 9):
        exif[0x0112] = orientation
        files[f"{orientation}.x"] = encoded(format, exif=exif.tobytes())
    root = write(tmp_path, files)
    upright, stored = pixels(decode(root)), pixels(decode(root, orient=False))
    for content, image, raw in zip(files.values(), upright, stored, strict=True):
        picture = Image.open(io.BytesIO(content))
        assert np.array_equal(image, np.asarray(ImageOps.exif_transpose(picture)))
        assert raw.shape == (HEIGHT, WIDTH, 3)
    assert {image.shape for image in upright} == {(HEIGHT, WIDTH, 3), (WIDTH, HEIGHT, 3)}
    assert len({raw.tobytes() for raw in stored}) == 1


def test_the_content_decides_the_format_never_the_name(tmp_path):
    formats = ["PNG", "WebP", "BMP", "GIF", "TIFF", "JPEG"]
    files = {f"{format}-file.jpg": encoded(format, "P" if format == "GIF" else "RGB") for format in formats}
    files["jpeg-file.png"] = files["JPEG-file.jpg"]
    images = pixels(decode(write(tmp_path, files)))
    for content, image in zip(files.values(), images, strict=True):
        assert np.array_equal(image, opened(content))


RAMP = np.arange(65536, dtype=np.uint16).reshape(256, 256)


def png(pixels):
    """A PNG of 16 bits a channel, written from the standard."""
    height, width, count = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 3: 2}[count], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.mark.parametrize("deep", [RAMP[:, :, None], np.dstack((RAMP, RAMP[::-1], RAMP.T))], ids=["grey", "rgb48"])
def test_sixteen_bits_are_kept_or_divided_by_257(deep, tmp_path):
    root = write(tmp_path, {"deep.png": png(deep)})
    (kept,) = pixels(decode(root, mode="unchanged", dtype="unchanged"))
    assert kept.dtype == np.uint16
    assert np.array_equal(kept, deep)
    (bytes_,) = pixels(decode(root, mode="unchanged"))
    assert np.array_equal(bytes_, np.rint(deep / 257).astype(np.uint8))
    (floats,) = pixels(
        decode(
            root,
            mode="unchanged",
            dtype="unchanged",
            then=lambda image: ops.image.cast(image, dtype="float32", scale=1 / 65535),
        )
    )
    assert np.abs(floats - deep / 65535).max() <= 1e-7


def test_a_palette_is_its_colours(tmp_path):
    content = encoded("PNG", "P")
    root = write(tmp_path, {"palette.png": content})
    for mode in ("RGB", "unchanged"):
        (image,) = pixels(decode(root, mode=mode))
        assert np.array_equal(image, opened(content))


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
def test_reduced_sizes_are_rounded_up(factor, tmp_path):
    files = {f"{format}.x": encoded(format) for format in ("JPEG", "PNG")}
    for image in pixels(decode(write(tmp_path, files), reduce=factor)):
        assert image.shape == (-(-HEIGHT // factor), -(-WIDTH // factor), 3)
    (flat,) = pixels(
        decode(write(tmp_path, {"JPEG.x": encoded(picture=Image.new("RGB", (90, 70), (9, 99, 200)))}), reduce=factor)
    )[:1]
    assert apart(flat, np.broadcast_to([9, 99, 200], flat.shape)) <= 2


# What is wrong with files.

ROWS, COLUMNS = 64, 90
DETAILED = Image.fromarray(np.random.default_rng(0).integers(0, 256, (ROWS, COLUMNS, 3), np.uint8))
GOOD, GOOD_PNG = encoded(picture=DETAILED, quality=90), encoded("PNG", picture=DETAILED)
HUGE_PNG = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 30000, 30000, 1, 0, 0, 0, 0))
HUGE_JPEG = GOOD.replace(struct.pack(">HH", ROWS, COLUMNS), struct.pack(">HH", 20000, 20000), 1)
BAD = {
    "empty.jpg": (b"", r"the data is empty \(0 bytes\)"),
    "one-byte.jpg": (b"\xff", r"the data is too short for a picture: 1 bytes, b'\\xff'"),
    "marker.jpg": (b"\xff\xd8", "too short|cut|ends"),
    "page.jpg": (b"<!DOCTYPE html><html>404</html>", r"unknown picture format: .*b'<!DOCTYPE ht', which looks like"),
    "bom.jpg": (b"\xef\xbb\xbf{\"error\": 404}", "unknown picture format: .*text with a byte order mark"),
    "sixty-percent.jpg": (GOOD[: len(GOOD) * 6 // 10], rf"JPEG of {COLUMNS} x {ROWS} pixels is cut"),
    "half.jpg": (GOOD[: len(GOOD) // 2], rf"JPEG of {COLUMNS} x {ROWS} pixels is cut"),
    "one-byte-less.jpg": (GOOD[:-1], "is cut"),
    "no-end.jpg": (GOOD[:-2], "is cut"),
    "header.jpg": (GOOD[: GOOD.index(b"\xff\xda")], "is cut|ends"),
    "half.png": (GOOD_PNG[: len(GOOD_PNG) // 2], rf"PNG of {COLUMNS} x {ROWS} pixels is cut"),
    "huge.png": (HUGE_PNG, r"PNG of 30000 x 30000 = 900,000,000 pixels is larger than the limit of 268,435,456;"),
    "huge.jpg": (HUGE_JPEG, r"JPEG of 20000 x 20000 = 400,000,000 pixels is larger than the limit of 268,435,456"),
}  # fmt: skip


@pytest.fixture
def mixed(tmp_path):
    """Good files with bad ones between them: batches of 3 have two good ones each and one bad one."""
    files: dict[str, bytes] = {}
    for name, (content, _) in BAD.items():
        files |= {f"before-{name}": GOOD, name: content, f"after-{name}": encoded("PNG")}
    return write(tmp_path, files)


@pytest.mark.parametrize("threads", [1, 2])
def test_bad_files_are_skipped_and_named_and_the_others_come(mixed, threads):
    batches = decode(mixed, batch_size=3, threads=threads, on_error="skip")
    assert len(batches) == len(BAD)
    for place, (batch, (name, (_, reason))) in enumerate(zip(batches, BAD.items(), strict=True)):
        assert batch.positions.tolist() == [3 * place, 3 * place + 2]
        assert np.array_equal(np.asarray(batch["image"][0]), opened(GOOD))
        assert np.array_equal(np.asarray(batch["image"][1]), RGB)
        (failure,) = batch.failures
        assert isinstance(failure.cause, DecodeError)
        assert failure.operator == "image.decode"
        assert Path(failure.origin).name.endswith(name)
        with pytest.raises(DecodeError, match=reason):
            raise failure.cause


def test_bad_files_are_replaced_by_their_neighbours(mixed):
    for place, batch in enumerate(decode(mixed, batch_size=3, on_error="replace")):
        assert batch.positions.tolist() == [3 * place, 3 * place + 2, 3 * place + 2]
        assert np.array_equal(np.asarray(batch["image"][1]), RGB)
        assert [failure.replaced_by for failure in batch.failures] == [3 * place + 2]


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_file_is_an_error_that_names_file_and_reason(name, tmp_path):
    content, reason = BAD[name]
    root = write(tmp_path, {"good.jpg": GOOD, name: content})
    with pytest.raises(SampleFailed, match=rf"(?s)image.decode failed on {root}/01-{name} \(position 1.*({reason})"):
        decode(root)


def test_failures_are_counted_and_an_epoch_without_a_good_file_is_an_error(tmp_path):
    root = write(tmp_path, {f"{place}.jpg": b"" for place in range(5)})

    @pipeline(batch_size=2, on_error="skip")
    def whole():
        return {"image": ops.image.decode(ops.read.files(root)[0])}

    with whole() as batches:
        with pytest.raises(TooManyFailuresError, match=r"all 5 failed; the first one: image.decode failed on .*0\.jpg"):
            list(batches)
        statistics = batches.statistics()
    assert (statistics.failures, statistics.samples, statistics.batches) == (5, 0, 0)
    with pytest.raises(TooManyFailuresError, match=r"max_failures=3; .*the data is empty"):
        decode(root, batch_size=2, on_error="skip", max_failures=3)


def test_after_a_broken_file_every_other_one_still_decodes(tmp_path):
    at = GOOD.index(b"\xff\xda") + 40
    broken = GOOD[:at] + b"\xff\xd9" + GOOD[at:]
    files = {f"{place}.jpg": broken if place % 7 == 3 else GOOD for place in range(70)}
    batches = decode(write(tmp_path, files), batch_size=8, on_error="skip")
    assert sum(len(batch.failures) for batch in batches) == 10
    assert sum(np.array_equal(image, opened(GOOD)) for image in pixels(batches)) == 60


def test_nothing_is_allocated_for_a_picture_above_the_limit(tmp_path):
    root = write(tmp_path, {"huge.png": HUGE_PNG, "huge.jpg": HUGE_JPEG, "good.jpg": GOOD})

    @pipeline(batch_size=3, on_error="skip")
    def whole():
        return {"image": ops.image.decode(ops.read.files(root)[0])}

    with whole() as batches:
        (batch,) = batches
        assert len(batch.failures) == 2
        assert batches.memory()["cpu"].peak < 2**20


def test_the_limit_is_an_argument(tmp_path):
    root = write(tmp_path, {"good.jpg": GOOD})
    message = (
        rf"JPEG of {COLUMNS} x {ROWS} = {ROWS * COLUMNS:,} pixels is larger than the limit of {ROWS * COLUMNS - 1:,}"
    )
    with pytest.raises(SampleFailed, match=message):
        decode(root, max_pixels=ROWS * COLUMNS - 1)
    assert len(decode(root, max_pixels=ROWS * COLUMNS)) == 1
    with pytest.raises(ArgumentError, match=r"image.decode: max_pixels is at least 1, got 0"):
        ops.image.decode(GOOD, max_pixels=0)


CUT = {
    "one-byte-less.jpg": GOOD[:-1],
    "no-end.jpg": GOOD[:-2],
    "half.jpg": GOOD[: len(GOOD) // 2],
    "half.png": GOOD_PNG[: len(GOOD_PNG) // 2],
}


def test_what_there_is_of_a_cut_file_comes_with_a_flag(tmp_path):
    root = write(tmp_path, {"good.jpg": GOOD, **CUT, "good.png": GOOD_PNG})
    (batch,) = decode(root, truncated="partial")
    assert batch["truncated"].numpy().tolist() == [False, True, True, True, True, False]
    assert batch["truncated"].dtype == "bool"
    whole, *_ = images = [np.asarray(image) for image in batch["image"]]
    assert {image.shape for image in images} == {(ROWS, COLUMNS, 3)}
    assert np.array_equal(whole, opened(GOOD))
    assert np.array_equal(images[1], whole)
    assert np.array_equal(images[3][:8], whole[:8])  # the rows that the first half holds
    assert not np.array_equal(images[3], whole)
    assert np.array_equal(images[5], np.asarray(DETAILED))


def test_a_file_of_which_nothing_is_left_is_an_error_for_all_that(tmp_path):
    root = write(
        tmp_path, {"good.jpg": GOOD, "empty.jpg": b"", "page.jpg": b"<html>not a picture</html>", "huge.png": HUGE_PNG}
    )
    (batch,) = decode(root, truncated="partial", on_error="skip")
    assert [type(failure.cause) for failure in batch.failures] == [DecodeError] * 3
    assert len(batch["image"]) == 1


def test_paths_are_read_and_named(tmp_path):
    root = Path(write(tmp_path, {"good.jpg": GOOD, "page.jpg": b"<html>not a picture</html>"}))
    good, bad = sorted(root.iterdir())
    for path in (good, str(good)):
        assert np.array_equal(ops.image.decode(path), opened(GOOD))
    for path in (bad, str(bad)):
        with pytest.raises(DecodeError, match=f"^{bad}: unknown picture format"):
            ops.image.decode(path)
    with pytest.raises(FileNotFoundError, match=r"nowhere.jpg"):
        ops.image.decode(root / "nowhere.jpg")

    @pipeline(batch_size=4, on_error="skip")
    def from_paths():
        image = ops.image.decode(ops.read.items([good, str(good), bad, root / "nowhere.jpg"]))
        return {"image": ops.image.random_resized_crop(image, size=(8, 8))}

    with from_paths() as batches:
        (batch,) = batches
    assert batch.positions.tolist() == [0, 1]
    assert str(batch.failures[0].cause).startswith(f"{bad}: unknown picture format")
    assert "nowhere.jpg" in str(batch.failures[1])


def test_encoded_data_comes_in_many_forms(tmp_path):
    forms = [GOOD, bytearray(GOOD), memoryview(GOOD), np.frombuffer(GOOD, np.uint8)]
    for form in forms:
        assert np.array_equal(ops.image.decode(form), opened(GOOD))
    with eager():
        batch = ops.image.decode(Batch.objects([GOOD, encoded("PNG")]))
    assert batch.is_equal is False
    assert np.array_equal(np.asarray(batch[1]), RGB)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((4, 5, 3), np.uint8), r"needs encoded bytes, got uint8 \(4, 5, 3\); what is decoded already goes"),
        (np.zeros(9, np.float32), r"needs encoded bytes, got float32 \(9\)"),
    ],
)
def test_what_is_not_encoded_is_refused(wrong, message):
    with pytest.raises(SpecError, match=f"image.decode at .*: {message}"):
        ops.image.decode(wrong)


def test_other_objects_are_refused():
    with pytest.raises(SpecError, match="needs encoded bytes or a path, got dict"):
        ops.image.decode({"bytes": GOOD})


@given(data=st.data(), kind=st.sampled_from(FILES), mode=st.sampled_from(["RGB", "gray", "RGBA", "unchanged"]))
@settings(max_examples=60)
def test_infer_and_peek_say_what_comes_out(data, kind, mode):
    height, width = data.draw(st.tuples(st.integers(1, 30), st.integers(1, 30)))
    dtype, reduce = data.draw(st.sampled_from(["uint8", "unchanged"])), data.draw(st.sampled_from([1, 2, 8]))
    content = encoded(kind[0], picture=PICTURES[kind[1]].resize((width, height)))
    operator = Decode(mode=mode, dtype=dtype, reduce=reduce)
    image = ops.image.decode(content, mode=mode, dtype=dtype, reduce=reduce)
    assert operator.image_spec().admits(image.spec)
    assert operator.infer(TensorSpec.object()) == operator.image_spec()
    assert operator.peek(content).shape == image.shape


@given(data=st.data(), kind=st.sampled_from(FILES))
@settings(max_examples=150)
def test_damage_anywhere_is_a_picture_or_a_decode_error(data, kind):
    content = bytearray(encoded(*kind))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])
    with eager():
        for damaged in (bytes(content), cut):
            with suppress(DecodeError):
                assert ops.image.decode(damaged, max_pixels=2**16).shape[2] == 3
        assert np.array_equal(ops.image.decode(GOOD), opened(GOOD))
