"""What the plugin makes of a graph: what is fused, what is not, and that no number changes."""

from __future__ import annotations

import io
from typing import get_args

import numpy as np
import pytest
from PIL import Image

from pipeplug import ArgumentError, Context, DecodeError, SampleFailed, Tensor, TensorSpec, ops, pipeline
from pipeplug_image.codecs.encode import Subsampling, encode_jpeg
from pipeplug_image.codecs.turbojpeg import _Memory
from pipeplug_image.fused import resizing
from pipeplug_image.kernels import resize_normalize
from pipeplug_image.normalize import Normalize

MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)
ONE_LEVEL = 1.001 / min(STD)  # half for not rounding what was resized, half for OpenCV's arithmetic


def picture(height, width, seed=0):
    """Edges, gradients and noise: what makes a wrong margin show."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    smooth = np.dstack((x * 255 // width, y * 255 // height, (x // 5 + y // 3) % 2 * 255))
    return (smooth * 0.7 + random.integers(0, 76, (height, width, 3))).astype(np.uint8)


def encoded(format, image, **options):
    file = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(file, format, **options)
    return file.getvalue()


def exif(orientation):
    block = Image.Exif()
    block[0x0112] = orientation
    return block.tobytes()


def kinds():
    """Files by what is special in them."""
    files = {}
    for place, subsampling in enumerate(get_args(Subsampling)):
        for height, width in ((61, 83), (48, 64), (33, 130)):
            name = f"{subsampling} {height}x{width}"
            files[name] = encode_jpeg(picture(height, width, place), 90, subsampling=subsampling)
    for orientation in range(1, 9):
        files[f"orientation {orientation}"] = encoded("JPEG", picture(61, 83), exif=exif(orientation), subsampling=2)
    odd = picture(51, 67)
    files["progressive"] = encoded("JPEG", odd, progressive=True, quality=90)
    files["restart markers"] = encoded("JPEG", odd, restart_marker_blocks=3)
    files["grey"] = encoded("JPEG", odd[:, :, 0])
    files["cmyk"] = encoded("JPEG", Image.fromarray(np.dstack((odd, odd[:, :, 0] // 3)), "CMYK"))
    files["rgb in jpeg"] = encoded("JPEG", odd, keep_rgb=True)
    files["png"] = encoded("PNG", odd)
    files["png, rgba"] = encoded("PNG", np.dstack((odd, odd[:, :, 0])))
    files["webp"] = encoded("WebP", odd)
    files["tiff"] = encoded("TIFF", odd)
    files["bmp"] = encoded("BMP", odd)
    files["gif"] = encoded("GIF", Image.fromarray(odd).quantize(64))
    return files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("kinds")
    for place, content in enumerate(kinds().values()):
        (root / f"{place:02d}.x").write_bytes(content)
    return root


def pipeline_of(function, root, *, batch_size=16, **options):
    @pipeline(batch_size=batch_size, **{"threads": 2, **options})
    def whole():
        out = function(ops.read.files(str(root))[0])
        return out if isinstance(out, dict) else {"out": out}

    return whole()


def kernels(function, root):
    """The nodes of the plan that touch pixels."""
    nodes = pipeline_of(function, root).plan.graph.nodes
    return [
        node.name for node in nodes if node.name.startswith("image.") and not node.name.endswith((".draw", ".shape"))
    ]


def decoded(then, **arguments):
    return lambda encoded: then(ops.image.decode(encoded, **arguments))


def train(image):
    image = ops.image.random_resized_crop(image, size=(32, 24))
    image = ops.image.flip(image)
    return ops.image.normalize(image, mean=MEAN, std=STD, layout="CHW")


CROPS = {
    "random_resized_crop": lambda image: ops.image.random_resized_crop(image, size=(32, 24)),
    "random_crop": lambda image: ops.image.random_crop(image, size=(20, 31)),
    "center_crop": lambda image: ops.image.center_crop(image, size=(20, 31)),
    "crop": lambda image: ops.image.crop(image, size=(20, 31), position=(0.9, 0.3)),
}


def assert_same_as_written(function, root, *, bound=0.0, threads=2, seed=0, epoch=0):
    """Every sample is what the graph gives as the user wrote it, node by node, but for `bound`."""
    made = pipeline_of(function, root, threads=threads, seed=seed)
    assert any("+" in node.name for node in made.plan.graph.nodes)
    made.set_epoch(epoch)
    with made as batches:
        fused = [np.asarray(sample) for batch in batches for sample in batch["out"]]
    written = made.samples(range(len(fused)), epoch=epoch)["out"]
    assert len(fused) == len(list(root.iterdir()))
    for name, ours, other in zip(kinds(), fused, written, strict=False):
        other = np.asarray(other)
        assert ours.dtype == other.dtype
        if bound:
            assert ours.shape == other.shape
            assert np.abs(ours - other).max() <= bound, name
        else:
            assert np.array_equal(ours, other), name


@pytest.mark.parametrize("crop", sorted(CROPS))
def test_a_decode_and_the_crop_of_it_become_one(crop, folder):
    made = pipeline_of(decoded(CROPS[crop]), folder).plan.graph
    assert kernels(decoded(CROPS[crop]), folder) == [f"image.decode+{crop}"]
    node = made[f"image.decode+{crop}"]
    assert node.operator_name == f"image.decode+{crop}"
    assert node.reason == "decodes only the part of the picture that the crop needs"


@pytest.mark.parametrize("library", ["turbo", "pillow"])
@pytest.mark.parametrize("crop", sorted(CROPS))
@pytest.mark.parametrize("arguments", [{}, {"orient": False}, {"mode": "gray"}, {"mode": "RGBA"}], ids=str)
def test_fusing_a_crop_changes_no_pixel(crop, arguments, library, folder, monkeypatch):
    if library == "pillow":
        monkeypatch.setattr("pipeplug_image.codecs.decode.find_library", lambda: None)
    for seed in range(2):
        assert_same_as_written(decoded(CROPS[crop], **arguments), folder, seed=seed)


@pytest.mark.parametrize("crop", sorted(CROPS))
@pytest.mark.parametrize("arguments", [{"mode": "unchanged"}, {"dtype": "unchanged"}], ids=str)
def test_parts_of_unknown_channels_or_dtype_do_not_overwrite_one_another(crop, arguments, folder):
    assert_same_as_written(decoded(CROPS[crop], **arguments), folder, threads=1)


def test_parts_without_turbojpeg_are_those_with_it(folder, monkeypatch):
    def results():
        with pipeline_of(decoded(CROPS["random_resized_crop"]), folder) as batches:
            return np.concatenate([batch["out"].numpy() for batch in batches])

    with_it = results()
    monkeypatch.setattr("pipeplug_image.codecs.decode.find_library", lambda: None)
    assert np.array_equal(results(), with_it)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_no_thread_count_changes_a_number(threads, folder):
    for epoch in (0, 3):
        assert_same_as_written(decoded(train), folder, bound=ONE_LEVEL, threads=threads, seed=5, epoch=epoch)


def test_the_training_recipe_becomes_one_kernel(folder):
    assert kernels(decoded(train), folder) == ["image.decode+random_resized_crop+flip+normalize"]
    node = pipeline_of(decoded(train), folder).plan.graph["image.decode+random_resized_crop+flip+normalize"]
    assert node.reason == (
        "decodes only the part of the picture that the crop needs; "
        "resizes, mirrors and normalises in one pass over the pixels"
    )


def resized_by(then, **arguments):
    """A recipe that decodes apart from what it fuses."""

    def recipe(image):
        image = then(ops.image.color_jitter(image, brightness=0.1))
        return ops.image.normalize(image, mean=MEAN, std=STD, **arguments)

    return recipe


def stretched(image, **arguments):
    return ops.image.resize(image, size=(20, 31), **arguments)


def shortened(image, **arguments):
    return ops.image.resize(image, shorter=20, **arguments)


def cropped(image, **arguments):
    return ops.image.random_resized_crop(image, size=(20, 31), **arguments)


RESIZES = {stretched: "resize", shortened: "resize", cropped: "random_resized_crop"}


@pytest.mark.parametrize("direction", ["horizontal", "vertical", None])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("resize", RESIZES)
def test_resizing_mirroring_and_normalising_is_one_kernel(resize, antialias, layout, direction, folder):
    def then(image):
        image = resize(image, antialias=antialias)
        return image if direction is None else ops.image.flip(image, direction=direction)

    recipe = decoded(resized_by(then, layout=layout))
    names = [RESIZES[resize], *(["flip"] if direction else []), "normalize"]
    assert kernels(recipe, folder) == ["image.decode", "image.color_jitter", "image." + "+".join(names)]
    assert_same_as_written(recipe, folder, bound=ONE_LEVEL)


@pytest.mark.parametrize(
    ("arguments", "normalized"),
    [({"interpolation": "cubic"}, {}), ({"interpolation": "nearest"}, {}), ({}, {"dtype": "float16"})],
)
def test_what_the_compiled_kernel_does_not_do_is_the_same_as_written(arguments, normalized, folder):
    recipe = resized_by(lambda image: ops.image.flip(stretched(image, **arguments)), **normalized)
    assert_same_as_written(decoded(recipe), folder)


def test_without_the_compiled_kernels_all_is_the_same_as_written(folder, monkeypatch):
    monkeypatch.setattr(resize_normalize, "library", lambda: None)
    resizing.cache_clear()
    try:
        for seed in range(3):
            assert_same_as_written(decoded(train), folder, seed=seed)
    finally:
        resizing.cache_clear()


@pytest.mark.parametrize("probability", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("direction", ["horizontal", "vertical"])
def test_mirroring_while_normalising_changes_no_number(probability, layout, dtype, direction, folder):
    def flipped(image):
        image = ops.image.flip(image, probability=probability, direction=direction)
        return ops.image.normalize(image, mean=MEAN, std=STD, scale=30, shift=99, dtype=dtype, layout=layout)

    assert_same_as_written(decoded(flipped), folder)


@pytest.mark.parametrize("first", ["horizontal", "vertical"])
@pytest.mark.parametrize("second", ["horizontal", "vertical"])
def test_two_mirrorings_are_two(first, second, folder):
    def mirrored(image):
        image = ops.image.flip(ops.image.resize(image, size=(20, 31)), direction=first)
        return ops.image.normalize(ops.image.flip(image, direction=second), mean=MEAN, std=STD)

    assert kernels(decoded(mirrored), folder) == [
        "image.decode",
        "image.resize",
        "image.flip",
        "image.flip_2+normalize",
    ]
    for seed in range(3):
        assert_same_as_written(decoded(mirrored), folder, seed=seed)


def test_the_work_of_a_subclass_is_its_own(folder):
    class Negative(Normalize):
        def cpu(self, image: Tensor, context: Context) -> Tensor:
            return Tensor(-super().cpu(image, context).numpy())

    def negated(image):
        return Negative(mean=MEAN, std=STD)(ops.image.flip(ops.image.resize(image, size=(9, 9))))

    def normal(image):
        return ops.image.normalize(ops.image.flip(ops.image.resize(image, size=(9, 9))), mean=MEAN, std=STD)

    with pipeline_of(decoded(negated), folder) as ours, pipeline_of(decoded(normal), folder) as other:
        for one, two in zip(ours, other, strict=True):
            assert np.abs(one["out"].numpy() + two["out"].numpy()).max() <= ONE_LEVEL


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_every_form_of_encoded_data_goes_through_the_whole_recipe(kind):
    files = [kind(encode_jpeg(picture(61 + number, 83), 90)) for number in range(5)]

    @pipeline(batch_size=5, threads=2)
    def whole():
        return {"out": train(ops.image.decode(ops.read.items(files)))}

    assert any("decode+" in node.name for node in whole().plan.graph.nodes)
    with whole() as batches:
        (batch,) = batches
    written = np.stack(list(whole().samples(range(5))["out"]))
    assert np.abs(batch["out"].numpy() - written).max() <= ONE_LEVEL


def twice(image):
    return {"a": ops.image.center_crop(image, size=(9, 9)), "b": ops.image.random_crop(image, size=(9, 9))}


def delivered(image):
    return {"whole": image, "part": ops.image.center_crop(image, size=(9, 9))}


def flip_delivered(image):
    flipped = ops.image.flip(ops.image.resize(image, size=(9, 9)))
    return {"flipped": flipped, "out": ops.image.normalize(flipped)}


def flip_used_twice(image):
    flipped = ops.image.flip(ops.image.resize(image, size=(9, 9)))
    return {"a": ops.image.normalize(flipped), "b": ops.image.normalize(flipped, dtype="float16")}


def jittered(image):
    image = ops.image.flip(ops.image.resize(image, size=(9, 9)))
    return ops.image.normalize(ops.image.color_jitter(image, hue=0.1))


@pytest.mark.parametrize("function", [twice, delivered, flip_delivered, flip_used_twice, jittered])
def test_what_others_use_or_what_would_change_is_left_as_it_is(function, folder):
    assert not any("+" in name for name in kernels(decoded(function), folder))


def test_decoding_to_a_smaller_size_or_a_part_of_a_cut_file_is_left_as_it_is(folder):
    assert kernels(decoded(CROPS["center_crop"], reduce=2), folder) == ["image.decode", "image.center_crop"]

    def partial(encoded):
        found = ops.image.decode(encoded, truncated="partial")
        return {"out": ops.image.center_crop(found["image"], size=(9, 9)), "truncated": found["truncated"]}

    assert kernels(partial, folder) == ["image.decode", "image.center_crop"]


def test_two_pairs_in_one_graph_have_names_of_their_own(folder):
    def pairs(encoded):
        first = ops.image.center_crop(ops.image.decode(encoded), size=(9, 9))
        second = ops.image.center_crop(ops.image.decode(encoded, mode="gray"), size=(9, 9), name="middle")
        third = ops.image.center_crop(ops.image.decode(encoded, name="read"), size=(9, 9))
        return {"a": first, "b": second, "c": third}

    names = [node.name for node in pipeline_of(pairs, folder).plan.graph.nodes if "+" in node.name]
    assert sorted(names) == ["image.decode+center_crop", "image.decode_2+middle", "read+center_crop_2"]


def test_arguments_that_vary_by_sample_reach_the_fused_crop(folder):
    def cut(encoded):
        place = TensorSpec((2,), "float64")
        both = ops.random.uniform(), ops.random.uniform()
        position = ops.map(lambda y, x: np.array([y, x]), *both, spec=place)
        return ops.image.crop(ops.image.decode(encoded), size=(20, 31), position=position)

    assert kernels(cut, folder) == ["image.decode+crop"]
    assert_same_as_written(cut, folder)


def test_only_the_box_of_a_picture_is_decoded(folder):
    def cut(encoded):
        return ops.image.crop(ops.image.decode(encoded), box=(3, 5, 30, 24))

    assert kernels(cut, folder) == ["image.decode+crop"]
    assert_same_as_written(cut, folder)


def test_a_box_of_its_own_for_every_picture(folder):
    def cut(encoded):
        corner = ops.random.integer(low=0, high=9)
        box = ops.map(lambda y: np.array([y, 2 * y, 20 + y, 21]), corner, spec=TensorSpec((4,), "int64"))
        return ops.image.crop(ops.image.decode(encoded), box=box)

    assert kernels(cut, folder) == ["image.decode+crop"]
    assert_same_as_written(cut, folder)
    with pytest.raises(SampleFailed, match=r"the box y=0, x=0, height=900, width=1 is not inside the image of height"):
        with pipeline_of(lambda e: ops.image.crop(ops.image.decode(e), box=(0, 0, 900, 1)), folder) as batches:
            list(batches)


def broken_folder(root):
    good = encoded("JPEG", picture(61, 83))
    files = {"a.jpg": good, "b.jpg": good[: len(good) // 2], "c.jpg": good, "d.jpg": b"", "e.jpg": b"<html>404</html>"}
    files |= {"f.jpg": good, "g.png": encoded("PNG", picture(40, 40))[:300], "h.jpg": good}
    for name, content in files.items():
        (root / name).write_bytes(content)
    return root


@pytest.mark.parametrize("crop", sorted(CROPS))
@pytest.mark.parametrize("threads", [1, 2])
def test_files_that_fail_are_named_and_the_others_are_what_they_are(crop, threads, tmp_path):
    made = pipeline_of(decoded(CROPS[crop]), broken_folder(tmp_path), batch_size=8, threads=threads, on_error="skip")
    with made as batches:
        (batch,) = batches
    assert batch.positions.tolist() == [0, 2, 5, 7]
    assert [failure.origin[-5:] for failure in batch.failures] == ["b.jpg", "d.jpg", "e.jpg", "g.png"]
    assert all(isinstance(failure.cause, DecodeError) for failure in batch.failures)
    reasons = ["is cut", r"the data is empty \(0 bytes\)", "HTML page", "PNG of 40 x 40 pixels is cut"]
    for reason, failure in zip(reasons, batch.failures, strict=True):
        with pytest.raises(DecodeError, match=reason):
            raise failure.cause
    assert np.array_equal(batch["out"].numpy(), np.stack(list(made.samples([0, 2, 5, 7])["out"])))


@pytest.mark.parametrize("mode", ["RGB", "gray", "RGBA"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_a_whole_recipe_in_one_kernel_is_as_written(mode, antialias, layout, folder):
    def recipe(image):
        image = ops.image.random_resized_crop(image, size=(33, 26), antialias=antialias)
        return ops.image.normalize(ops.image.flip(image), mean=120.0, std=60.0, layout=layout)

    names = kernels(decoded(recipe, mode=mode), folder)
    assert names == ["image.decode+random_resized_crop+flip+normalize"]
    assert_same_as_written(decoded(recipe, mode=mode), folder, bound=1.001 / 60)


@pytest.mark.parametrize("threads", [1, 2])
def test_files_that_fail_among_others_of_one_call(threads, tmp_path):
    made = pipeline_of(decoded(train), broken_folder(tmp_path), batch_size=8, threads=threads, on_error="skip")
    with made as batches:
        for epoch in range(2):  # a decompressor that met damage must serve again
            (batch,) = batches
            assert batch.positions.tolist() == [0, 2, 5, 7]
            assert [failure.origin[-5:] for failure in batch.failures] == ["b.jpg", "d.jpg", "e.jpg", "g.png"]
            reasons = ["is cut", r"the data is empty \(0 bytes\)", "HTML page", "PNG of 40 x 40 pixels is cut"]
            for reason, failure in zip(reasons, batch.failures, strict=True):
                assert failure.operator == "image.decode+random_resized_crop+flip+normalize"
                with pytest.raises(DecodeError, match=reason):
                    raise failure.cause
            written = np.stack(list(made.samples([0, 2, 5, 7], epoch=epoch)["out"]))
            assert np.abs(batch["out"].numpy() - written).max() <= ONE_LEVEL


def test_a_picture_too_large_for_memory_fails_alone(tmp_path, monkeypatch):
    for number in range(6):
        (tmp_path / f"{number}.jpg").write_bytes(encode_jpeg(picture(160 if number == 3 else 60, 120), 90))
    take = _Memory.take

    def little(memory, shape):
        if shape[0] * shape[1] > 100 * 120:
            raise MemoryError("no room")
        return take(memory, shape)

    def recipe(image):
        image = ops.image.random_resized_crop(image, size=(32, 24), scale=(0.99, 1), ratio=(0.5, 2))
        return ops.image.normalize(image, mean=MEAN, std=STD)

    monkeypatch.setattr(_Memory, "take", little)
    with pipeline_of(decoded(recipe), tmp_path, batch_size=6, threads=1, on_error="skip") as batches:
        (batch,) = batches
    assert batch.positions.tolist() == [0, 1, 2, 4, 5]


def test_damage_within_a_part_fails_that_file_alone(tmp_path):
    good = encode_jpeg(picture(160, 120), 90)
    for number in range(6):
        (tmp_path / f"{number}.jpg").write_bytes(good)
    middle = len(good) // 2
    (tmp_path / "3.jpg").write_bytes(good[:middle] + b"\xff\xd5" + good[middle + 2 :])  # a restart that nobody expects

    def recipe(image):
        image = ops.image.random_resized_crop(image, size=(32, 24), scale=(1, 1), ratio=(0.75, 0.75))
        return ops.image.normalize(image, mean=MEAN, std=STD)

    with pipeline_of(decoded(recipe), tmp_path, batch_size=6, threads=1, on_error="skip") as batches:
        (batch,) = batches
    assert batch.positions.tolist() == [0, 1, 2, 4, 5]
    with pytest.raises(DecodeError, match=r"JPEG .* is broken"):
        raise batch.failures[0].cause
    assert all(np.array_equal(batch["out"].numpy()[0], other) for other in batch["out"].numpy()[1:])


def test_an_error_of_a_fused_node_says_which_and_which_file(tmp_path):
    root = broken_folder(tmp_path)
    with pytest.raises(
        SampleFailed, match=rf"^image.decode\+crop failed on {root}/b.jpg \(position 1, index 1\): Decode"
    ):
        with pipeline_of(decoded(CROPS["crop"]), root) as batches:
            list(batches)


@pytest.mark.parametrize("name", ["crop", "center_crop", "random_crop"])
def test_a_crop_larger_than_a_picture_names_both_and_the_file(name, tmp_path):
    (tmp_path / "small.jpg").write_bytes(encoded("JPEG", picture(61, 83)))
    message = (
        rf"image.decode\+{name} failed on {tmp_path}/small.jpg \(.*\): ArgumentError: "
        "a crop of height 62 and width 4 does not fit into an image of height 61 and width 83: pad or resize"
    )
    with pytest.raises(SampleFailed, match=message) as caught:
        with pipeline_of(decoded(lambda image: getattr(ops.image, name)(image, size=(62, 4))), tmp_path) as batches:
            list(batches)
    assert isinstance(caught.value.cause, ArgumentError)


def test_damage_outside_of_the_part_is_not_seen_and_touches_no_pixel(tmp_path):
    good = encode_jpeg(picture(160, 120), 90)
    at = len(good) - 60  # in the last rows of blocks
    (tmp_path / "damaged.jpg").write_bytes(good[:at] + b"\xff\xd9\0\0\0" + good[at + 5 :])

    def top(image):
        return ops.image.crop(image, size=(40, 60), position=(0, 0))

    with pipeline_of(decoded(top), tmp_path) as batches:
        (batch,) = batches
    assert np.array_equal(batch["out"][0], ops.image.decode(good).numpy()[:40, :60])
    with pytest.raises(SampleFailed, match=r"image.decode failed on .*damaged.jpg .*DecodeError: JPEG .* is broken"):
        pipeline_of(decoded(top), tmp_path).samples([0])
