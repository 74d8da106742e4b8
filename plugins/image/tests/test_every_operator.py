"""What holds for every operator on images, whatever it does to them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeplug import Batch, SpecError, Tensor, TensorSpec, eager, ops

PIXELS = ("uint8", "uint16", "float32")


@dataclass(frozen=True)
class Case:
    """One way to call an operator.

    Attributes:
        channels: numbers of channels that it takes.
        view: whether the result may lie in the input's memory.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = PIXELS
    channels: tuple[int, ...] = (1, 3, 4)
    view: bool = False

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return getattr(ops.image, self.name)(*inputs, **self.arguments, **options)

    @property
    def operator(self) -> Any:
        return getattr(ops.image, self.name).operator(**self.arguments)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r:.20}' for name, value in self.arguments.items())})"


ANY = (1, 2, 3, 4, 5)
SLOPE = ((0.9, 0.2, -1.0), (-0.1, 1.1, 0.5))
CASES = [
    Case("affine", {"matrix": SLOPE}),
    Case("affine", {"matrix": SLOPE, "size": (7, 3), "border": "reflect_101"}),
    Case("brightness", {"factor": 1.3}),
    Case("cast", {"dtype": "float16", "scale": 1 / 255}, channels=ANY),
    Case("cast", {"dtype": "uint8"}, channels=ANY),
    Case("center_crop", {"size": (5, 4)}, channels=ANY, view=True),
    Case("color_jitter", {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}),
    Case("contrast", {"factor": 0.7}),
    Case("crop", {"size": (5, 4), "position": (0.1, 0.8)}, channels=ANY, view=True),
    Case("erase", {"boxes": [(1, 1, 2, 3), (-1, 3, 3, 90)]}),
    Case("flip", {"probability": 1.0}, channels=ANY),
    Case("flip", {"probability": 0.5, "direction": "vertical"}, channels=ANY, view=True),
    Case("gaussian_blur", {"sigma": 1.1}),
    Case("grayscale"),
    Case("grayscale", {"channels": 3}),
    Case("hue", {"turns": 0.2}),
    Case("jpeg_distortion", {"quality": 30}, dtypes=("uint8",), channels=(1, 3)),
    Case("normalize", {"mean": 3.0, "std": 2.0}),
    Case("normalize", {"dtype": "float16", "layout": "CHW"}),
    Case("normalize", {"dtype": "int8", "shift": 0.5, "layout": "CHW"}),
    Case("pad", {"margins": (1, 2, 3, 4)}),
    Case("pad", {"margins": (30, 0, 0, 1), "border": "reflect_101"}),
    Case("random_crop", {"size": (5, 4)}, channels=ANY, view=True),
    Case("random_resized_crop", {"size": (6, 9)}),
    Case("random_resized_crop", {"size": (6, 9), "interpolation": "cubic", "antialias": False}),
    Case("resize", {"size": (6, 9)}),
    Case("resize", {"shorter": 4, "interpolation": "lanczos"}),
    Case("resize", {"longer": 30, "interpolation": "nearest"}),
    Case("rotate", {"angle": 20.0}),
    Case("rotate", {"angle": 20.0, "expand": True, "border": "edge"}),
    Case("saturation", {"factor": 0.2}),
    Case("transpose", {"layout": "CHW"}, channels=ANY),
]
every = pytest.mark.parametrize("case", CASES, ids=str)
on_images = pytest.mark.parametrize("case", [case for case in CASES if case.name not in ("cast", "transpose")], ids=str)
SIZES = [(8, 9), (5, 14), (11, 6)]


def same(results, expected):
    assert len(results) == len(expected)
    for result, other in zip(results, expected, strict=True):
        assert result.dtype == other.dtype
        assert np.array_equal(result, other)


@every
@given(data=st.data())
@settings(max_examples=15)
def test_infer_says_what_comes_out_and_inputs_are_left_alone(case, data, noise):
    shape = (*data.draw(st.tuples(st.integers(5, 40), st.integers(4, 40))), data.draw(st.sampled_from(case.channels)))
    image = noise(shape, data.draw(st.sampled_from(case.dtypes)))
    before = image.copy()
    result = case(image)
    assert np.array_equal(image, before)
    assert case.operator.infer(TensorSpec(shape, image.dtype.name)).admits(result.spec)
    assert case.operator.infer(TensorSpec((None, None, None), None, "HWC")).admits(result.spec)
    assert case.operator.infer(TensorSpec()).admits(result.spec)
    assert result.layout == case.operator.infer(TensorSpec()).layout or case.name == "cast"


@every
@pytest.mark.parametrize("dtype", PIXELS)
@pytest.mark.parametrize("count", [1, 3, 4])
def test_batches_and_pipelines_give_what_single_calls_give(case, dtype, count, noise, run, rows):
    if dtype not in case.dtypes or count not in case.channels:
        with pytest.raises(SpecError, match=rf"needs an image of .*, got ({dtype}|{count})"):
            case(noise((8, 9, count), dtype))
        return
    equal = np.stack([noise((8, 9, count), dtype, seed) for seed in range(5)])
    ragged = [noise((*size, count), dtype) for size in SIZES]
    for samples in (equal, ragged):
        with eager(seed=3):
            expected = [case(sample).numpy() for sample in samples]
        batch = Batch.equal(equal) if samples is equal else Batch.ragged(ragged)
        with eager(seed=3):
            same(rows(case(batch)), expected)
        delivered = run(case, samples, seed=3)
        same(rows(delivered["out"]), expected)
        assert not delivered.failures


@every
@pytest.mark.parametrize("dtype", PIXELS)
@pytest.mark.parametrize("count", [1, 3, 4])
def test_the_result_is_made_in_the_batch(case, dtype, count, noise, monkeypatch):
    if dtype not in case.dtypes or count not in case.channels or case.view:
        return
    handed: list[Tensor] = []

    class Context:
        device = "cpu"

        def __init__(self, *_: object) -> None: ...

        def empty(self, spec: TensorSpec) -> Tensor:
            handed.append(Tensor(np.zeros(spec.known_shape(), spec.dtype), spec.layout))
            return handed[-1]

    monkeypatch.setattr("pipeplug.runtime.compute.SampleContext", Context)
    image = noise((8, 9, count), dtype)
    with eager(seed=1):
        result = case(image)
    monkeypatch.undo()
    assert result is handed[0]
    assert len(handed) == 1
    with eager(seed=1):
        assert np.array_equal(result, case(image))


@every
@pytest.mark.parametrize("dtype", PIXELS)
def test_images_with_rows_apart_are_images_too(case, dtype, noise):
    if dtype not in case.dtypes:
        return
    whole = noise((17, 40, 3), dtype)
    part = whole[3:14, 5:27:2]
    with eager(seed=1):
        expected = case(np.ascontiguousarray(part)).numpy()
    with eager(seed=1):
        assert np.array_equal(case(part).numpy(), expected)


@on_images
def test_what_is_no_image_is_refused_with_the_call_and_a_way_out(case, noise):
    here = re.escape(__file__)
    for wrong, message in (
        (b"JPEG", "needs an image, got a Python object; decode it first: ops.image.decode"),
        (
            noise((8, 9)),
            r"needs an image \(height, width, channels\), got 2 dimensions \(8, 9\); .*array\[:, :, None\]",
        ),
        (noise((2, 8, 9, 3)), r"needs an image \(height, width, channels\), got 4 dimensions \(2, 8, 9, 3\)"),
        (Tensor(noise((3, 8, 9)), "CHW"), r"layout HWC, got CHW; .*ops\.image\.transpose\(image, layout=\"HWC\"\)"),
        (np.zeros((8, 9, 3)), r"needs an image of uint8.*, got float64; cast it first: ops\.image\.cast"),
        (np.zeros((8, 9, 3), bool), r"needs an image of uint8.*, got bool; cast it first: ops\.image\.cast"),
        (np.zeros((0, 9, 3), np.uint8), r"needs an image with pixels, got \(0, 9, 3\)"),
    ):
        with pytest.raises(SpecError, match=rf"^image\.{case.name} at {here}:\d+: .*{message}"):
            case(wrong)


@on_images
def test_numbers_of_channels_that_do_not_fit_are_refused(case, noise):
    if 2 in case.channels:
        assert case(noise((8, 9, 2))).shape[2] == 2
        return
    with pytest.raises(SpecError, match=r"needs an image of 1 or 3( or 4)? channels, got 2: \(8, 9, 2\)"):
        case(noise((8, 9, 2)))


@on_images
def test_what_is_known_only_with_the_data_is_checked_then(case, noise, run):
    good = noise((8, 9, 3))
    wrong = {
        "2 dimensions": noise((8, 9)),
        "float64": np.zeros((8, 9, 3)),
        "CHW": Tensor(noise((8, 9, 3)), "CHW"),
        "int8": np.zeros((8, 9, 3), np.int8),
    }
    if case.name == "random_resized_crop":
        del wrong["2 dimensions"]  # shapes of all samples are drawn from at once, and have one length
    delivered = run(case, [good, *wrong.values(), good], on_error="skip")
    assert delivered.positions.tolist() == [0, len(wrong) + 1]
    for position, (word, failure) in enumerate(zip(wrong, delivered.failures, strict=True), start=1):
        assert isinstance(failure.cause, SpecError)
        assert f", got {word}" in str(failure.cause)
        start = f"image.{case.name} failed on item {position} (position {position}, index {position}): SpecError: needs"
        assert str(failure).startswith(start)
