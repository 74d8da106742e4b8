"""Decoding a batch on a GPU: who decodes what, in which order it comes, what is counted, and what is used again."""

from __future__ import annotations

import gc

import cv2
import numpy as np
import pytest
from PIL import Image

from pipeplug import Batch, DecodeError, MemoryLimitError, SpecError
from pipeplug_image.codecs.decode import Decoder
from pipeplug_image.codecs.options import DecodeOptions
from pipeplug_image.decode import Decode
from pipeplug_image.fused_cuda import DecodePrepared, PrepareDecode, PrepareRandomCrop
from pipeplug_image.random_crop import RandomCrop


def decode(data, **options):
    with Decoder() as decoder:
        return decoder.decode(data, DecodeOptions(**options))


def run(files, context, state, **options):
    """The batch that the operator gives."""
    operator = Decode(**options)
    return operator.cuda(Batch.objects(files), context, state=state)


@pytest.fixture
def state(library):
    with Decode().open() as opened:
        yield opened


def assert_equal(results, files, **options):
    expected = [np.minimum(decode(data, **options), 250) if data[:2] == b"\xff\xd8" else decode(data) for data in files]
    assert len(results) == len(expected)
    for ours, other in zip(results, expected, strict=True):
        assert ours.shape == other.shape
        assert np.array_equal(np.minimum(ours, 250), np.minimum(other, 250))


@pytest.fixture
def mixed(jpeg):
    """Files of every way, mixed."""
    return [
        jpeg(24, 32, 1),
        jpeg(20, 21, 2, progressive=True),
        jpeg(14, 9, 3, mode="CMYK"),
        jpeg(50, 31, 4),
        jpeg(9, 8, 5, format="PNG"),
        jpeg(11, 12, 6, mode="L"),
        jpeg(30, 31, 7, progressive=True),
        jpeg(3, 70, 8),
    ]


def test_a_batch_comes_in_order_whoever_decodes(state, library, context, pixels, mixed):
    batch = run(mixed, context, state)
    assert batch.device == "cuda:0"
    assert (batch.dtype, batch.layout) == ("uint8", "HWC")
    assert_equal(pixels(batch), mixed)
    assert library.calls == [("engine", 4), ("kernels", 2)]
    assert context.counts == {"hardware": 4, "cuda": 2, "cpu": 2}
    assert not context.failed
    # What the library decoded is there for what follows on the task's stream.
    assert context.stream.waited == context.stream.made[:2]


def test_grey_has_one_channel(state, library, context, pixels, mixed):
    results = pixels(run(mixed, context, state, mode="gray"))
    assert all(each.shape[2] == 1 for each in results)
    for ours, data in zip(results, mixed, strict=True):
        assert np.array_equal(np.minimum(ours, 250), np.minimum(decode(data, mode="gray"), 250))


@pytest.mark.parametrize("count", [1, 5])
def test_a_batch_of_one_kind_is_one_call(state, library, context, pixels, jpeg, count):
    files = [jpeg(20 + seed * 7 % 11, 33 - seed, seed) for seed in range(count)]
    assert_equal(pixels(run(files, context, state)), files)
    assert library.calls == [("engine", count)]


def test_who_refuses_is_followed_by_the_next(state, library, context, pixels, jpeg):
    files = [jpeg(seed=seed) for seed in range(6)] + [jpeg(seed=9, progressive=True)]
    library.refused["engine"] = {files[1], files[2], files[4]}
    library.refused["kernels"] = {files[2], files[6]}
    library.level["kernels"] = 3
    results = pixels(run(files, context, state))
    expected = [np.minimum(decode(data), 250) for data in files]
    for row, level in enumerate((0, 3, 0, 0, 3, 0, 0)):
        assert np.array_equal(np.minimum(results[row], 250), np.minimum(expected[row] + np.uint8(level), 250))
    assert library.calls == [("engine", 6), ("kernels", 4)]
    assert context.counts == {"hardware": 3, "cuda": 2, "cpu": 2}


def damaged(data):
    """A file whose coded pixels end early: the markers are right, and only who decodes them finds out."""
    at = data.index(b"\xff\xda")
    return data[: at + 40] + b"\xff\xd9"


def test_a_failure_is_of_its_row_and_the_others_are_given(state, library, context, pixels, jpeg):
    bad = damaged(jpeg(seed=1))
    files = [jpeg(seed=0), bad, jpeg(seed=2), b"text", jpeg(seed=3, progressive=True)]
    for decoders in library.refused.values():
        decoders.add(bad)
    batch = run(files, context, state)
    assert_equal(pixels(batch), [files[0], files[2], files[4]])
    assert sorted(context.failed) == [1, 3]
    assert isinstance(context.failed[1], DecodeError)
    assert "is broken: Corrupt JPEG data" in str(context.failed[1])
    assert "too short for a picture" in str(context.failed[3])


def test_when_all_fail_the_batch_is_empty(state, library, context):
    batch = run([b"", b"text"], context, state)
    assert len(batch) == 0
    assert batch.spec.dtype == "uint8"
    assert sorted(context.failed) == [0, 1]
    assert library.calls == []


def test_a_path_is_named_when_the_cpu_refuses_it(state, library, context, jpeg, tmp_path):
    path = tmp_path / "bad.jpg"
    path.write_bytes(damaged(jpeg()))
    for decoders in library.refused.values():
        decoders.add(path.read_bytes())
    run([path], context, state)
    assert str(context.failed[0]).startswith(f"{path}: ")


def test_what_is_not_packed_or_of_another_shape_is_not_taken(state, library, context, pixels, jpeg, monkeypatch):
    files = [jpeg(24, 32, 1), jpeg(24, 31, 2), jpeg(23, 32, 3)]
    whole = decode(files[2])

    def decoded(self, stream, image, params):
        if self.kind == "kernels":
            return None
        result = type(self)._decoded_by_double(self, stream, image, params)
        if stream.data == files[0]:
            result.strides = (200, 3, 1)
        if stream.data == files[1]:
            result.shape = (31, 24, 3)
        return result

    double = type(library.Decoder(device_id=0, backends=["engine"]))
    monkeypatch.setattr(double, "_decoded_by_double", double._decoded, raising=False)
    monkeypatch.setattr(double, "_decoded", decoded)
    results = pixels(run(files, context, state))
    assert context.counts == {"hardware": 1, "cpu": 2}
    assert_equal(results, files)
    assert np.array_equal(np.minimum(results[2], 250), np.minimum(whole, 250))


def test_a_gpu_without_the_engine_is_not_asked_again(state, library, new_context, pixels, jpeg):
    library.has_engine = False
    files = [jpeg(seed=seed) for seed in range(20)]
    for _ in range(4):
        context = new_context()
        assert_equal(pixels(run(files, context, state)), files)
        assert context.counts == {"cuda": 20}
    assert [kind for kind, _ in library.calls] == ["engine", "kernels", "engine", "kernels", "kernels", "kernels"]


def test_an_engine_that_works_is_asked_on(state, library, new_context, jpeg):
    good, bad = jpeg(seed=99), [jpeg(seed=seed) for seed in range(20)]
    library.refused["engine"] = {*bad}
    run([good], new_context(), state)
    for _ in range(3):
        run(bad, new_context(), state)
    run([good], context := new_context(), state)
    assert context.counts == {"hardware": 1}


def test_decoders_are_made_when_they_are_needed_and_closed_with_the_state(library, context, jpeg):
    with Decode().open() as state:
        assert library.decoders == []
        run([jpeg()], context, state)
        assert [each.kind for each in library.decoders] == ["engine"]
        run([jpeg(progressive=True)], context, state)
        assert [each.kind for each in library.decoders] == ["engine", "kernels"]
        context.device = "cuda:3"
        run([jpeg()], context, state)
        assert [each.ordinal for each in library.decoders] == [0, 0, 3]
    assert all(each.closed for each in library.decoders)
    state.close()


def test_pixels_stay_right_when_memory_is_used_again(state, library, new_context, pixels, jpeg):
    """Fifty batches of changing sizes and numbers, of which the last few are held."""
    random, held = np.random.default_rng(0), []
    for number in range(50):
        files = [
            jpeg(*random.integers(1, 60, 2).tolist(), seed=number * 100 + row, progressive=bool(random.integers(2)))
            for row in range(random.integers(1, 9))
        ]
        held.append((run(files, new_context(), state), files))
        if len(held) > 3:
            assert_equal(pixels(held[0][0]), held[0][1])
            del held[0]
    for batch, files in held:
        assert_equal(pixels(batch), files)
    assert len(library.images) <= 5 * 2 * 9


def test_images_are_used_again_when_nobody_refers_to_the_batch(state, library, context, jpeg):
    files = [jpeg(seed=seed) for seed in range(4)]
    first = run(files, context, state)
    part = first.take([2])
    del first
    assert len(library.images) == 4
    second = run(files, context, state)
    assert len(library.images) == 8  # a part of the first is still there
    assert not set(part.addresses.tolist()) & set(second.addresses.tolist())
    before = set(part.addresses.tolist()) | set(second.addresses.tolist())
    events = list(context.events)
    del part, second
    third = run(files, context, state)
    assert set(third.addresses.tolist()) & before
    assert len(library.images) == 8
    assert sum(event.synced for event in events) == 1  # whose images were taken


def test_nothing_is_kept_after_the_end(library, context, jpeg):
    with Decode().open() as state:
        batch = run([jpeg(), jpeg(seed=1)], context, state)
        run([jpeg()], context, state)
    gc.collect()
    assert len(library.images) == 2
    del batch, state
    gc.collect()
    assert len(library.images) == 0
    stream = context.stream.made[0]
    assert len(stream.waited) == 2


def test_a_limit_on_memory_is_met_before_anything_is_decoded(state, library, new_context, pixels, jpeg):
    files = [jpeg(40, 40, 1), jpeg(40, 40, 2)]
    with pytest.raises(MemoryLimitError):
        run(files, new_context(memory_limit=9000), state)
    assert library.calls == []
    assert_equal(pixels(run(files, new_context(memory_limit=9600), state)), files)


def test_an_error_of_the_library_gives_the_images_back(state, library, new_context, pixels, jpeg, monkeypatch):
    files = [jpeg(seed=1)]
    run(files, new_context(), state)
    (before,) = library.images
    with monkeypatch.context() as patch:
        patch.setattr(type(library.decoders[0]), "decode", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(files, new_context(), state)
    assert_equal(pixels(run(files, new_context(), state)), files)
    assert list(library.images) == [before]


def test_dtypes_that_do_not_belong_together_are_refused(state, library, context, jpeg):
    deep = cv2.imencode(".png", np.full((9, 7, 3), 30000, np.uint16))[1].tobytes()
    with pytest.raises(SpecError, match="samples of a batch have one dtype"):
        run([jpeg(), deep], context, state, dtype="unchanged")
    assert run([deep, deep], context, state, dtype="unchanged").dtype == "uint16"


def test_partial_images_are_for_the_cpu():
    assert Decode().devices() == ("cpu", "cuda")
    assert Decode(truncated="partial").devices() == ("cpu",)


def test_the_two_halves_give_what_the_operator_gives(library, context, new_context, pixels, mixed):
    prepare = PrepareDecode(decode=Decode())
    decoding = DecodePrepared(decode=Decode(), spec=Decode().image_spec())
    assert not decoding.is_parallel()
    with prepare.open() as first, decoding.open() as second:
        prepared = prepare.cpu(Batch.objects([*mixed, b"text"]), context, state=first)
        assert list(context.failed) == [8]
        assert len(prepared) == 8
        batch = decoding.cuda(prepared, new_context(), state=second)
    assert_equal(pixels(batch), mixed)


def test_parts_that_the_gpu_refuses_are_decoded_by_the_cpu(library, context, pixels, jpeg):
    files = [jpeg(seed=seed) for seed in range(3)]
    library.refused["engine"].add(files[1])
    library.refused["kernels"].add(files[1])
    crop = RandomCrop(size=(9, 8))
    prepare = PrepareRandomCrop(decode=Decode(), crop=crop)
    place = np.random.default_rng(0).random((3, 2))
    decoding = DecodePrepared(decode=Decode(), spec=Decode().image_spec())
    with prepare.open() as first, decoding.open() as second:
        prepared = prepare.cpu(Batch.objects(files), context, state=first, place=place)
        results = pixels(decoding.cuda(prepared, context, state=second))
    assert context.counts == {"hardware": 2, "cpu": 1}
    for row, data in enumerate(files):
        y, x, height, width = crop.box((24, 32, 3), place[row])
        expected = decode(data)[y : y + height, x : x + width]
        assert np.array_equal(np.minimum(results[row], 250), np.minimum(expected, 250))


def test_an_image_of_a_camera_is_turned_by_the_cpu(state, library, context, pixels, jpeg):
    block = Image.Exif()
    block[0x0112] = 8
    files = [jpeg(seed=1), jpeg(seed=2, exif=block.tobytes())]
    results = pixels(run(files, context, state))
    assert [each.shape for each in results] == [(24, 32, 3), (32, 24, 3)]
    assert_equal(results, files)
    assert context.counts == {"hardware": 1, "cpu": 1}
