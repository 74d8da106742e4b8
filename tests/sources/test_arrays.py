from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeplug import ArgumentError, SpecError, TensorSpec, ops, pipeline
from pipeplug.sources.arrays import Arrays

IMAGES = np.arange(5 * 2 * 3, dtype=np.uint8).reshape(5, 2, 3)
LABELS = np.arange(5) * 10


@pipeline(batch_size=2, threads=1)
def reading(*arguments: Any, **named: Any):
    return ops.read.arrays(*arguments, **named)


def test_several_arrays_give_several_values():
    sampled = reading((IMAGES, LABELS)).samples([4, 0])
    np.testing.assert_array_equal(sampled["0"].numpy(), IMAGES[[4, 0]])
    assert sampled["1"].numpy().tolist() == [40, 0]


def test_one_array_gives_one_value():
    with reading(IMAGES) as batches:
        np.testing.assert_array_equal(np.concatenate([batch["0"].numpy() for batch in batches]), IMAGES)
    assert reading([IMAGES]).samples([1])["0"].spec == reading(IMAGES).samples([1])["0"].spec


def test_specs():
    assert Arrays(arrays=IMAGES).infer() == TensorSpec((2, 3), "uint8")
    assert Arrays(arrays=[IMAGES, LABELS], layouts=("HW", "")).infer() == (
        TensorSpec((2, 3), "uint8", "HW"),
        TensorSpec((), "int64"),
    )


def test_memory_maps_are_not_loaded(tmp_path: Path):
    np.save(tmp_path / "images.npy", IMAGES)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    reader = Arrays(arrays=mapped).reader()
    assert np.shares_memory(reader[3], mapped)
    np.testing.assert_array_equal(reading(mapped).samples([3])["0"].numpy()[0], IMAGES[3])


def test_lists_of_numbers_are_arrays():
    assert reading(([1.5, 2.5], [3, 4])).samples([1])["0"].numpy().tolist() == [2.5]


def test_an_array_of_objects_gives_objects():
    assert reading(np.array([b"x", None], object)).samples([1, 0])["0"].list() == [None, b"x"]


def test_rows_are_named_in_messages():
    assert Arrays(arrays=IMAGES).reader().origin(3) == "row 3"


def test_no_rows_give_no_batches():
    with reading(IMAGES[:0]) as batches:
        assert (len(batches), list(batches)) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arrays": (IMAGES, LABELS[:4])}, "read.arrays: the arrays have different lengths: 5, 4"),
        ({"arrays": ()}, "read.arrays needs at least one array"),
        (
            {"arrays": (IMAGES, np.array(3))},
            "read.arrays takes arrays whose first dimension counts samples, got a scalar",
        ),
        ({"arrays": IMAGES, "layouts": ("HW", "")}, "read.arrays: 2 layouts for 1 arrays"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], message: str):
    with pytest.raises(ArgumentError) as caught:
        reading(**arguments)
    assert str(caught.value) == message


def test_a_layout_that_does_not_fit():
    with pytest.raises(SpecError, match=r"read\.arrays at .*: layout 'HWC' does not have as many letters as shape"):
        reading(IMAGES, layouts=("HWC",))


def test_text_is_no_tensor():
    with pytest.raises(SpecError, match=r"read\.arrays at .*: unknown dtype 'str"):
        reading(np.array(["a", "b"]))
