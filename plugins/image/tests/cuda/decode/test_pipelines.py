"""Pipelines that decode on a GPU, which is none here: nvImageCodec's double decodes into memory of the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeplug import Batch, DeviceError, SampleFailed, eager, ops, pipeline
from pipeplug_image.codecs import nvimgcodec
from pipeplug_image.codecs.decode import Decoder
from tests.fakes import gpu


@pytest.fixture(autouse=True)
def card(monkeypatch, library):
    return gpu.install(monkeypatch)


@pytest.fixture
def folder(jpeg, tmp_path):
    """Forty pictures of many sizes, of every way."""
    random = np.random.default_rng(0)
    kinds: list[dict[str, Any]] = [
        {},
        {},
        {},
        {"progressive": True},
        {"mode": "L"},
        {"format": "PNG"},
        {"mode": "CMYK"},
    ]
    for number in range(40):
        options = kinds[number % 7]
        height, width = random.integers(20, 60, 2).tolist()
        (tmp_path / f"{number:02d}.jpg").write_bytes(jpeg(height, width, number, **options))
    return tmp_path


@pipeline(batch_size=4, threads=3, device="cuda:0")
def images(root):
    return {"image": ops.image.decode(ops.read.files(root)[0])}


def expected(folder):
    """What the CPU gives, up to the levels that the double's decoders differ by."""
    with Decoder() as decoder:
        return [np.minimum(decoder.decode(path.read_bytes()), 250) for path in sorted(folder.iterdir())]


def delivered(batches):
    return [np.minimum(np.asarray(image), 250) for batch in batches for image in batch["image"].to("cpu")]


def assert_equal(ours, others):
    assert [each.shape for each in ours] == [each.shape for each in others]
    assert all(np.array_equal(one, other) for one, other in zip(ours, others, strict=True))


@pytest.mark.parametrize("threads", [1, 4])
def test_images_come_in_order_and_are_counted(folder, threads):
    with images.using(threads=threads)(str(folder)) as batches:
        assert_equal(delivered(batches), expected(folder))
        statistics = batches.statistics()
    counts = {each.name: dict(each.counts) for each in statistics.operators}
    assert counts["image.decode"] == {"hardware": 24, "cuda": 6, "cpu": 10}


def test_a_plan_says_what_runs_where(folder):
    plan = images(str(folder)).plan
    assert [(node.name, node.device) for node in plan.graph.nodes] == [
        ("read.files", "cpu"),
        ("image.decode.prepare", "cpu"),
        ("image.decode", "cuda:0"),
    ]
    assert [stage.serial for stage in plan.stages] == [False, False, True]


def test_files_that_fail_are_left_out_and_the_next_ones_are_right(folder, jpeg):
    good = expected(folder)
    (folder / "03.jpg").write_bytes(jpeg()[:-9])
    (folder / "17.jpg").write_bytes(b"")
    with images.using(on_error="skip")(str(folder)) as batches:
        ours = delivered(batches)
        failures = batches.statistics().failures
    assert_equal(ours, [each for row, each in enumerate(good) if row not in (3, 17)])
    assert failures == 2
    with images(str(folder)) as batches, pytest.raises(SampleFailed, match=r"03\.jpg.*end-of-image marker"):
        delivered(batches)


def test_memory_is_used_again_and_goes_in_the_end(folder, library, card):
    with images.using(threads=4)(str(folder)) as batches:
        for _ in range(5):
            assert_equal(delivered(batches), expected(folder))
        assert len(library.images) < 60  # of 145 pictures
        (held,) = [batch["image"] for position, batch in enumerate(batches) if position == 2]
    assert all(decoder.closed for decoder in library.decoders)
    assert_equal([np.minimum(np.asarray(each), 250) for each in held.to("cpu")], expected(folder)[8:12])
    assert 0 < len(library.images) < 10
    del held, batches
    for device in card:
        device.sync()
    assert len(library.images) == 0


def test_a_limit_on_the_memory_of_the_gpu_counts_images(folder):
    limited = images.using(memory_limit={"cuda:0": "200KiB"}, threads=4)
    with limited(str(folder)) as batches:
        assert_equal(delivered(batches), expected(folder))
        use = batches.memory()["cuda:0"]
    assert 0 < use.peak <= use.taken_peak <= 200 << 10


def test_what_is_missing_is_said_when_the_pipeline_opens(folder, monkeypatch):
    def missing():
        raise DeviceError('image.decode on a GPU needs nvImageCodec: pip install "pipeplug-image[cuda13]"')

    monkeypatch.setattr(nvimgcodec, "_load", missing)
    with pytest.raises(DeviceError, match="needs nvImageCodec"), images(str(folder)):
        pass


def test_eager_calls(folder, library):
    files = [path.read_bytes() for path in sorted(folder.iterdir())]
    one = ops.image.decode(files[0], device="cuda:0")
    assert one.device == "cuda:0"
    assert_equal([np.minimum(np.asarray(one.to("cpu")), 250)], expected(folder)[:1])
    with eager():
        for _ in range(3):
            batch = ops.image.decode(Batch.objects(files), device="cuda:0")
            assert_equal([np.minimum(np.asarray(each), 250) for each in batch.to("cpu")], expected(folder))
    del one, batch
    assert len(library.images) == 0
    array = np.frombuffer(files[0], np.uint8)
    assert_equal(
        [np.minimum(np.asarray(ops.image.decode(array, device="cuda:0").to("cpu")), 250)], expected(folder)[:1]
    )
    with pytest.raises(ValueError, match="too short for a picture"):
        ops.image.decode(b"text", device="cuda:0")


CROPS = {
    "crop": lambda image: ops.image.crop(image, size=(20, 19), position=(0.9, 0.3)),
    "center_crop": lambda image: ops.image.center_crop(image, size=(20, 19)),
    "random_crop": lambda image: ops.image.random_crop(image, size=(20, 19)),
}


@pytest.mark.parametrize("name", CROPS)
def test_parts_are_those_that_the_cpu_gives(folder, name, monkeypatch):
    @pipeline(batch_size=7, threads=3, seed=5)
    def parts(root):
        return {"image": CROPS[name](ops.image.decode(ops.read.files(root)[0]))}

    kind = getattr(ops.image, name).operator
    monkeypatch.setattr(kind, "devices", lambda self: ("cpu", "cuda"))  # whatever kernel it has, it is not called
    with parts(str(folder)) as batches:
        others = [np.minimum(np.asarray(image), 250) for batch in batches for image in batch["image"]]
    with parts.using(device="cuda:0")(str(folder)) as batches:
        assert [node.name for node in batches.plan.graph if node.device == "cuda:0"] == [f"image.decode+{name}"]
        assert_equal(delivered(batches), others)
