"""What is prepared for a GPU: jobs for plain JPEGs, pixels of all else, and failures in their rows."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from PIL import Image

from pipeplug import ArgumentError, Batch, DecodeError, SpecError, Tensor
from pipeplug_image.center_crop import CenterCrop
from pipeplug_image.codecs.decode import Decoder
from pipeplug_image.codecs.jobs import Decoded, Job, find_jobs
from pipeplug_image.codecs.options import DecodeOptions
from pipeplug_image.crop import Crop
from pipeplug_image.decode import Decode
from pipeplug_image.fused_cuda import (
    PrepareCenterCrop,
    PrepareCrop,
    PrepareDecode,
    PrepareRandomCrop,
    PrepareResizedCrop,
)
from pipeplug_image.random_crop import RandomCrop
from pipeplug_image.random_resized_crop import RandomResizedCrop


def exif(orientation):
    block = Image.Exif()
    block[0x0112] = orientation
    return block.tobytes()


def prepare(operator, files, context, **arguments):
    with operator.open() as state:
        return list(operator.cpu(Batch.objects(files), context, state=state, **arguments))


def decode(data, **options):
    with Decoder() as decoder:
        return decoder.decode(data, DecodeOptions(**options))


def check(results, files, *, boxes=None, **options):
    """Jobs have the shape that the result is to have, and what is decoded is what the CPU gives."""
    for row, (result, data) in enumerate(zip(results, files, strict=True)):
        expected = decode(data, **options)
        if boxes is not None:
            y, x, height, width = boxes[row]
            expected = expected[y : y + height, x : x + width]
        if isinstance(result, Job):
            assert (result.height, result.width) == expected.shape[:2]
            assert result.encoded is data
            region = (y, x, y + height, x + width) if boxes is not None else None
            assert result.stream.region == region
            assert result.box == (boxes[row] if boxes is not None else None)
        else:
            assert np.array_equal(result.pixels, expected)


@pytest.fixture
def files(jpeg):
    """Files by who decodes them: the JPEG engine, CUDA kernels, the CPU."""
    return {
        "engine": [jpeg(24, 32), jpeg(40, 30, mode="L"), jpeg(25, 33, restart_marker_blocks=2), jpeg() + b"more"],
        "kernels": [jpeg(24, 33, progressive=True)],
        "cpu": [
            jpeg(mode="CMYK"),
            jpeg(exif=exif(6)),
            jpeg(keep_rgb=True),
            jpeg(format="PNG"),
            jpeg(format="WebP"),
            cv2.imencode(".png", np.full((9, 7, 3), 30000, np.uint16))[1].tobytes(),
        ],
    }


def test_plain_jpegs_become_jobs_and_all_else_is_decoded(library, context, files):
    everything = [data for kind in files.values() for data in kind]
    results = prepare(PrepareDecode(decode=Decode()), everything, context)
    check(results, everything)
    assert [type(each) for each in results] == [Job] * 5 + [Decoded] * 6
    assert [each.progressive for each in results[:5]] == [False] * 4 + [True]
    assert not context.failed


def test_bytes_behind_a_picture_are_not_handed_on(library, jpeg):
    data = jpeg()
    (job,) = find_jobs([data], [data + bytes(5000)], DecodeOptions())
    assert job is not None
    assert job.stream.data == data


@pytest.mark.parametrize(
    "options",
    [{"mode": "RGBA"}, {"mode": "unchanged"}, {"dtype": "unchanged"}, {"reduce": 2}],
    ids=str,
)
def test_what_is_not_wanted_plain_is_decoded(library, context, files, options):
    everything = files["engine"] + files["kernels"]
    results = prepare(PrepareDecode(decode=Decode(**options)), everything, context)
    assert all(isinstance(each, Decoded) for each in results)
    check(results, everything, **options)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_orientation_is_applied_by_the_cpu_and_left_alone_by_the_gpu(library, context, jpeg, orientation):
    data = jpeg(exif=exif(orientation))
    (upright,) = prepare(PrepareDecode(decode=Decode()), [data], context)
    assert isinstance(upright, Job) == (orientation == 1)
    check([upright], [data])
    (stored,) = prepare(PrepareDecode(decode=Decode(orient=False)), [data], context)
    assert isinstance(stored, Job)
    check([stored], [data], orient=False)


def test_grey_is_for_the_gpu_too(library, context, files):
    results = prepare(PrepareDecode(decode=Decode(mode="gray")), files["engine"], context)
    assert all(isinstance(each, Job) for each in results)


def test_paths_and_buffers_are_read(library, context, jpeg, tmp_path):
    data = jpeg()
    path = tmp_path / "a.jpg"
    path.write_bytes(data)
    array = Tensor(np.frombuffer(data, np.uint8))
    inputs = [path, str(path), bytearray(data), memoryview(data), array]
    results = prepare(PrepareDecode(decode=Decode()), inputs, context)
    assert [each.stream.data for each in results] == [data] * 5
    assert results[0].encoded is path


def test_failures_are_of_their_rows_with_the_words_of_the_cpu(library, context, jpeg, tmp_path):
    good, missing, large = jpeg(), tmp_path / "missing.jpg", jpeg(30, 40)
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(good[:-50])
    inputs = [good, good[:-50], missing, large, 7, b"", cut, good]
    results = prepare(PrepareDecode(decode=Decode(max_pixels=1000)), inputs, context)
    assert len(results) == 2
    causes = context.failed
    assert sorted(causes) == [1, 2, 3, 4, 5, 6]
    assert isinstance(causes[1], DecodeError)
    assert "end-of-image marker is not in its" in str(causes[1])
    assert isinstance(causes[2], FileNotFoundError)
    assert "limit of 1,000" in str(causes[3])
    assert isinstance(causes[4], SpecError)
    assert "empty (0 bytes)" in str(causes[5])
    assert str(causes[6]).startswith(f"{cut}: ")


def test_a_file_that_the_library_sees_otherwise_is_for_the_cpu(library, context, jpeg, monkeypatch):
    data = jpeg()
    opened = library.CodeStream

    def other(content):
        stream = opened(content)
        stream.width += 1
        return stream

    def none(content):
        raise RuntimeError("Failed to get image info")

    for double in (other, none):
        monkeypatch.setattr(library, "CodeStream", double)
        (result,) = prepare(PrepareDecode(decode=Decode()), [data], context)
        check([result], [data])
        assert isinstance(result, Decoded)


def crops(count):
    """Operators and arguments, each with the boxes that it gives for the shapes of images."""
    random = np.random.default_rng(3)
    tries = np.stack((random.uniform(0.1, 1, (count, 10)), random.uniform(0.7, 1.4, (count, 10))), axis=2)
    place, positions = random.random((count, 2)), random.random((count, 2))
    center, boxed = CenterCrop(size=(9, 8)), Crop(box=(3, 4, 5, 6))
    fixed, placed = Crop(size=(9, 8), position=(0.9, 0.2)), Crop(size=(9, 8))
    resized = RandomResizedCrop(size=(12, 12))
    random_crop = RandomCrop(size=(9, 8))
    none, given = np.full(count, None), np.array([(3, 4, 5, 6)] * count)

    def of_crop(operator, **columns):
        made = PrepareCrop(decode=Decode(), crop=operator, position=operator.position, box=operator.box)
        return made, columns, lambda shape, row: operator.part(shape, columns["position"][row], columns["box"][row])

    return {
        "resized": (
            PrepareResizedCrop(decode=Decode(), crop=resized),
            {"tries": tries, "place": place},
            lambda shape, row: resized.box(shape, tries[row].tolist(), place[row].tolist()),
        ),
        "random": (
            PrepareRandomCrop(decode=Decode(), crop=random_crop),
            {"place": place},
            lambda shape, row: random_crop.box(shape, place[row]),
        ),
        "center": (PrepareCenterCrop(decode=Decode(), crop=center), {}, lambda shape, row: center.box(shape)),
        "crop": of_crop(fixed, position=np.broadcast_to(fixed.position, (count, 2)), box=none),
        "crop, positions": of_crop(placed, position=positions, box=none),
        "crop, list of positions": of_crop(placed, position=positions.tolist(), box=none),
        "crop, box": of_crop(boxed, position=np.full((count, 2), 0.5), box=given),
    }


@pytest.mark.parametrize("name", crops(1))
def test_parts_are_those_of_the_crop(library, context, files, name):
    everything = [data for kind in files.values() for data in kind if len(decode(data)) > 9]
    operator, columns, box_of = crops(len(everything))[name]
    boxes = [box_of(decode(data).shape, row) for row, data in enumerate(everything)]
    results = prepare(operator, everything, context, **columns)
    assert sum(isinstance(each, Job) for each in results) == 5
    check(results, everything, boxes=boxes)


def test_parts_that_the_cpu_decodes_do_not_overwrite_one_another(library, context, jpeg):
    everything = [jpeg(seed=seed, exif=exif(2)) for seed in range(5)]
    operator, columns, box_of = crops(5)["crop"]
    results = prepare(operator, everything, context, **columns)
    check(results, everything, boxes=[box_of((24, 32, 3), row) for row in range(5)])
    assert all(each.pixels.flags.c_contiguous for each in results)


def test_a_crop_that_does_not_fit_fails_its_row(library, context, jpeg):
    operator, columns, _ = crops(3)["random"]
    assert len(prepare(operator, [jpeg(), jpeg(5, 5), jpeg(7, 50, progressive=True)], context, **columns)) == 1
    assert sorted(context.failed) == [1, 2]
    assert all(isinstance(each, ArgumentError) and "does not fit" in str(each) for each in context.failed.values())


def test_arguments_that_a_crop_refuses_fail_their_rows(library, context, jpeg):
    crop = Crop(size=(9, 8))
    operator = PrepareCrop(decode=Decode(), crop=crop, position=crop.position, box=crop.box)
    positions = np.array([(0.5, 0.5), (0.5, 1.5), (np.nan, 0)])
    assert len(prepare(operator, [jpeg()] * 3, context, position=positions, box=np.full(3, None))) == 1
    assert sorted(context.failed) == [1, 2]
    assert all("position is a number from 0 to 1" in str(each) for each in context.failed.values())


def test_what_a_crop_refuses_of_a_decoded_image_fails_its_row(library, context):
    noise = Image.fromarray(np.zeros((20, 20), np.uint8)).convert("LA")
    file = io.BytesIO()
    noise.save(file, "PNG")
    crop = RandomResizedCrop(size=(5, 5))
    operator = PrepareResizedCrop(decode=Decode(mode="unchanged"), crop=crop)
    drawn = {"tries": np.full((1, 10, 2), (0.5, 1.0)), "place": np.zeros((1, 2))}
    assert prepare(operator, [file.getvalue()], context, **drawn) == []
    assert "needs an image of 1 or 3 or 4 channels, got 2" in str(context.failed[0])
