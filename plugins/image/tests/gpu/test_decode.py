"""Decoding on a card: pixels against the CPU's, files of every kind, failures, and memory that is used again."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import cv2
import numpy as np
import pytest
from PIL import Image

from pipeplug import Batch, ops, pipeline
from pipeplug_image.codecs.encode import Subsampling, encode_jpeg

pytestmark = pytest.mark.gpu

ENGINE, KERNELS = 1, 3  # levels that pixels may be off


def picture(height, width, seed=0):
    """Edges, gradients and noise: what makes a wrong margin show."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    smooth = np.dstack((x * 255 // width, y * 255 // height, (x // 5 + y // 3) % 2 * 255))
    return (smooth * 0.7 + random.integers(0, 76, (height, width, 3))).astype(np.uint8)


def encoded(height=61, width=83, seed=0, mode="RGB", format="JPEG", **options):
    file = io.BytesIO()
    Image.fromarray(picture(height, width, seed)).convert(mode).save(file, format, **options)
    return file.getvalue()


def exif(orientation):
    block = Image.Exif()
    block[0x0112] = orientation
    return block.tobytes()


class Run:
    """Files through a pipeline: `images` by position, the `failures`, and who decoded how many."""

    def __init__(self, files, then=lambda image: image, device="cuda:0", batch_size=16, seed=0, **options):
        @pipeline(batch_size=batch_size, threads=4, device=device, seed=seed, on_error="skip")
        def whole():
            return {"image": then(ops.image.decode(ops.read.items(files), **options))}

        self.images: dict[int, np.ndarray] = {}
        self.failures: dict[int, BaseException] = {}
        with whole() as batches:
            for batch in batches:
                rows = zip(batch.positions.tolist(), batch["image"].to("cpu"), strict=True)
                self.images |= {position: np.asarray(image) for position, image in rows}
                self.failures |= {failure.position: failure.cause for failure in batch.failures}
            statistics = batches.statistics()
        self.counts: dict[str, int] = {}
        for each in statistics.operators:
            if each.name.startswith("image.decode") and not each.name.endswith(".prepare"):
                self.counts |= each.counts


def difference(files, **options):
    """How far pixels are off those of the CPU, and who decoded how many."""
    ours, other = Run(files, **options), Run(files, **{**options, "device": "cpu"})
    assert not ours.failures
    assert ours.images.keys() == other.images.keys() == set(range(len(files)))
    return worst(ours.images, other.images), ours.counts


def worst(ours, other):
    off = 0
    for position, expected in other.items():
        assert ours[position].shape == expected.shape
        assert ours[position].dtype == expected.dtype
        off = max(off, int(np.abs(ours[position].astype(int) - expected).max()))
    return off


SIZES = [(61, 83), (64, 64), (1, 1), (7, 3), (8, 8), (3, 700), (500, 9), (333, 500), (1200, 1601)]


@pytest.mark.parametrize("subsampling", get_args(Subsampling))
@pytest.mark.parametrize("quality", [30, 75, 95, 100])
def test_baseline(subsampling, quality):
    files = [encode_jpeg(picture(*size, seed), quality, subsampling=subsampling) for seed, size in enumerate(SIZES)]
    off, counts = difference(files)
    assert off <= (ENGINE if counts.get("hardware") == len(files) else KERNELS)
    if subsampling in ("4:4:4", "4:2:2", "4:2:0"):
        assert counts.get("hardware", 0) >= len(files) - 5  # whatever is too small for the engine


@pytest.mark.parametrize("mode", ["RGB", "gray"])
@pytest.mark.parametrize("stored", ["RGB", "L"])
def test_colours_and_grey(mode, stored):
    files = [encoded(*size, seed, stored) for seed, size in enumerate(SIZES)]
    off, counts = difference(files, mode=mode)
    assert off <= (ENGINE if counts.get("hardware") == len(files) else KERNELS)


def progressive(height, width, seed=0, subsampling=420):
    """A progressive JPEG, grey where `subsampling` is 400."""
    image = picture(height, width, seed)
    options = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1, cv2.IMWRITE_JPEG_QUALITY, 90]
    if subsampling != 400:
        factors = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{subsampling}")
        options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factors]
    return cv2.imencode(".jpg", image[:, :, 0] if subsampling == 400 else image, options)[1].tobytes()


@pytest.mark.parametrize("subsampling", [444, 422, 420, 440, 411, 400])
def test_progressive(subsampling):
    files = [progressive(*size, seed, subsampling) for seed, size in enumerate(SIZES)]
    off, counts = difference(files)
    assert off <= KERNELS
    assert counts.get("hardware", 0) == 0
    assert counts.get("cuda", 0) > 0


@pytest.mark.parametrize("blocks", [1, 3, 50])
def test_restart_markers(blocks):
    assert difference([encoded(200, 301, restart_marker_blocks=blocks)])[0] <= KERNELS


def test_what_follows_the_picture_is_none_of_it():
    data = encoded(200, 301)
    files = [data + more for more in (b"\0", bytes(100_000), data, encoded(90, 90, 4), b"\xff\xd9")]
    assert difference(files)[0] <= ENGINE


@pytest.mark.parametrize("orient", [True, False])
def test_orientations(orient):
    files = [encoded(61, 83, number, exif=exif(number), subsampling=2) for number in range(1, 9)]
    off, counts = difference(files, orient=orient)
    assert off <= ENGINE
    assert counts == ({"hardware": 1, "cpu": 7} if orient else {"hardware": 8})


def test_what_no_gpu_decodes_is_exactly_what_the_cpu_gives():
    deep = np.random.default_rng(0).integers(0, 65536, (40, 50, 3), np.uint16)
    files = [
        encoded(mode="CMYK"),
        encoded(keep_rgb=True),
        encoded(quality=1),
        *(encoded(format=format) for format in ("PNG", "WebP", "TIFF", "BMP")),
        encoded(mode="RGBA", format="PNG"),
        cv2.imencode(".png", deep)[1].tobytes(),
    ]
    ours, other = Run(files), Run(files, device="cpu")
    for position in range(len(files)):
        if position != 2:  # a plain JPEG if its tables are of 8 bits
            assert np.array_equal(ours.images[position], other.images[position])
    assert worst(ours.images, other.images) <= ENGINE


@pytest.mark.parametrize("options", [{"mode": "RGBA"}, {"reduce": 2}, {"reduce": 8}, {"dtype": "unchanged"}], ids=str)
def test_options_that_the_cpu_serves(options):
    files = [encoded(*size) for size in SIZES]
    off, counts = difference(files, **options)
    assert off == 0
    assert counts == {"cpu": len(files)}


CROPS = {
    "crop": lambda image: ops.image.crop(image, size=(40, 51), position=(0.9, 0.3)),
    "center_crop": lambda image: ops.image.center_crop(image, size=(40, 51)),
    "random_crop": lambda image: ops.image.random_crop(image, size=(40, 51)),
    "random_resized_crop": lambda image: ops.image.random_resized_crop(image, size=(32, 24)),
}


@pytest.mark.parametrize("crop", CROPS)
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "4:4:0"])
def test_parts(crop, subsampling):
    random = np.random.default_rng(1)
    sizes = [(int(height), int(width)) for height, width in random.integers(51, 400, (60, 2))]
    files = [encode_jpeg(picture(*size, seed), 90, subsampling=subsampling) for seed, size in enumerate(sizes)]
    files[7:9] = [progressive(90, 70), encoded(90, 70, mode="CMYK")]
    for seed in range(3):
        off, counts = difference(files, then=CROPS[crop], seed=seed)
        assert off <= KERNELS + 1  # and what resizing rounds
        assert counts["hardware"] > 50


def broken():
    """Files that must fail, and must not be the end of others."""
    data, scans = encoded(300, 401), progressive(300, 401)
    scan = data.index(b"\xff\xda")
    return [
        b"",
        b"text",
        data[: len(data) // 2],
        data[:-2],
        scans[: len(scans) // 2],
        data[: scan + 400] + b"\xff\xd5" + data[scan + 400 :],
        data[:100],
        data.replace(b"\xff\xdb", b"\xff\xeb"),
    ]


def test_broken_files_fail_alone_and_the_next_batches_are_right(capfd):
    good = [encoded(*size, seed) for seed, size in enumerate(SIZES * 12)]
    files, bad = [], broken()
    for number, data in enumerate(good):
        files.append(data)
        if number % 9 == 4:
            files.append(bad[number // 9 % len(bad)])
    for _ in range(3):
        ours, other = Run(files, batch_size=8), Run(files, batch_size=8, device="cpu")
        assert len(ours.failures) == 12
        assert {position: str(cause) for position, cause in ours.failures.items()} == {
            position: str(cause) for position, cause in other.failures.items()
        }
        assert worst(ours.images, other.images) <= KERNELS
    assert capfd.readouterr().err == ""


def test_damage_within_coded_pixels_harms_no_other(capfd):
    random, files = np.random.default_rng(2), []
    for number in range(64):
        data = bytearray(progressive(120, 131, number) if number % 4 == 3 else encoded(120, 131, number))
        if number % 2:
            places = random.integers(data.index(b"\xff\xda") + 20, len(data) - 2, 5)
            for place in places.tolist():
                data[place] = int(random.integers(0, 255)) if data[place - 1] != 0xFF else data[place]
        files.append(bytes(data))
    ours, other = Run(files), Run(files, device="cpu")
    intact = {position: image for position, image in other.images.items() if position % 2 == 0}
    assert len(intact) == 32
    assert worst(ours.images, intact) <= ENGINE
    again = [encoded(*size) for size in SIZES]
    assert difference(again)[0] <= KERNELS
    assert capfd.readouterr().err == ""


def test_memory_is_used_again_over_batches_of_changing_sizes():
    random, files = np.random.default_rng(3), []
    for number in range(50 * 12):
        height, width = (random.integers(16, 400, 2) * (1 + number % 5)).tolist()
        files.append(encoded(height, width, number) if number % 11 else progressive(height, width, number))

    @pipeline(batch_size=12, threads=4, device="cuda:0")
    def whole():
        return {"image": ops.image.decode(ops.read.items(files))}

    expected = Run(files, device="cpu").images
    held: list[Any] = []
    with whole() as batches:
        for _ in range(2):
            for batch in batches:
                held.append((batch.positions.tolist(), batch["image"]))
                if len(held) > 3:
                    check(held.pop(0), expected)
            taken = batches.memory()["cuda:0"].taken
        largest = sum(sorted(image.nbytes for image in expected.values())[-12:])
        assert taken < 12 * largest
    for each in held:  # what was delivered outlives the pipeline
        check(each, expected)


def check(delivered, expected):
    positions, images = delivered
    rows = zip(positions, images.to("cpu"), strict=True)
    assert worst({position: np.asarray(image) for position, image in rows}, {at: expected[at] for at in positions}) <= 3


def test_two_pipelines_at_once():
    files = [encoded(*size, seed) for seed, size in enumerate(SIZES * 5)]
    expected = Run(files, device="cpu").images
    with ThreadPoolExecutor(2) as threads:
        for run in threads.map(lambda batch_size: Run(files, batch_size=batch_size), (3, 16)):
            assert worst(run.images, expected) <= KERNELS


def test_eager_calls():
    data = encoded()
    image = ops.image.decode(data, device="cuda:0")
    assert image.device == "cuda:0"
    cpu = ops.image.decode(data)
    assert np.abs(np.asarray(image.to("cpu")).astype(int) - np.asarray(cpu)).max() <= ENGINE
    batch = ops.image.decode(Batch.objects([data, encoded(90, 31)]), device="cuda:0")
    assert [each.shape for each in batch.to("cpu")] == [(61, 83, 3), (90, 31, 3)]
