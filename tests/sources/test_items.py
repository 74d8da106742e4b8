from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeplug import ArgumentError, SampleFailed, TensorSpec, ops, pipeline


class Dataset:
    """As PyTorch has them: no iteration, no base class."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return np.full((index + 1, 2), index, np.float32), index


@pipeline(batch_size=2, threads=2)
def reading(*arguments: Any, **named: Any):
    return ops.read.items(*arguments, **named)


def test_items_are_objects_unless_they_are_arrays():
    assert reading(["a", b"b", {"c": 1}]).samples([2, 0])["0"].list() == [{"c": 1}, "a"]
    assert reading([np.zeros(2), np.ones(2)]).samples([1])["0"].numpy().tolist() == [[1, 1]]
    assert reading([3, 4]).samples([0, 1])["0"].numpy().tolist() == [3, 4]


class ArrayOfAnother:
    """As PyTorch's tensors and Pillow's pictures are."""

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._values


def test_texts_and_dates_of_numpy_stay_objects():
    assert reading(np.array(["a", "bc"])).samples([1])["0"].list() == ["bc"]
    (date,) = reading(np.array(["2020-01-02"], "datetime64[D]")).samples([0])["0"]
    assert date == np.datetime64("2020-01-02")


def test_arrays_of_other_libraries_are_arrays():
    assert reading([ArrayOfAnother([[1, 2]])]).samples([0])["0"].numpy().tolist() == [[[1, 2]]]
    picture = Image.new("RGB", (5, 4), (1, 2, 3))
    (sample,) = reading([picture]).samples([0])["0"]
    assert sample.shape == (4, 5, 3)
    assert sample.dtype == "uint8"
    (kept,) = reading([picture], specs=(TensorSpec.object(),)).samples([0])["0"]
    assert kept is picture


@pytest.mark.parametrize("item", [(np.zeros((4, 4, 3), np.uint8), 1), "name", {"image": 1}, None])
def test_an_object_where_a_tensor_belongs_is_explained(item: Any):
    @pipeline(batch_size=1)
    def resized():
        return ops.image.resize(ops.read.items([item]), size=(2, 2))

    message = (
        f"image.resize failed on item 0 .*SpecError: input 0 is a Python object, {type(item).__name__}, where the "
        r"operator takes a tensor; read.items\(…, outputs=n\) takes tuples apart, and ops.map turns other objects"
    )
    with pytest.raises(SampleFailed, match=message):
        with resized() as batches:
            list(batches)


def test_a_dataset():
    sampled = reading(Dataset(), outputs=2).samples([2, 0])
    assert [array.shape for array in sampled["0"].list()] == [(3, 2), (1, 2)]
    assert sampled["1"].numpy().tolist() == [2, 0]


def test_specs_that_are_known():
    made = reading([(np.zeros(2), 1)], outputs=2, specs=[TensorSpec((2,), "float64"), TensorSpec((), "int8")])
    sampled = made.samples([0])
    assert [sampled[name].dtype for name in "01"] == ["float64", "int8"]


@pytest.mark.parametrize(
    "items", [lambda: (number for number in range(5)), lambda: {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}.keys()]
)
def test_iterables_are_read_as_they_come(items):
    with reading(items()) as batches:
        assert [batch["0"].numpy().tolist() for batch in batches] == [[0, 1], [2, 3], [4]]


def test_an_iterable_has_no_length_and_no_samples():
    made = reading(iter([1, 2]))
    with made, pytest.raises(TypeError, match="the length of a pipeline over an iterable is not known before it ends"):
        len(made)
    with pytest.raises(ArgumentError, match=r"samples\(\) needs a source with a length"):
        made.samples([0])


def test_an_iterable_cannot_be_shuffled():
    with pytest.raises(ArgumentError, match="an iterable without a length is read as it comes: no shuffle"):
        reading(iter([1, 2]), shuffle=True)


def test_an_item_that_is_no_tuple():
    with pytest.raises(SampleFailed, match=r"read\.items failed on item 0 .*infer gives 2 outputs"):
        reading([5], outputs=2).samples([0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"items": 5}, "read.items takes something indexed or iterable, got int"),
        (
            {"items": {"a": 1}},
            "read.items counts items from 0, which a dict does not; give list(items.values())",
        ),
        ({"items": [1], "outputs": 0}, "read.items: outputs is at least 1, got 0"),
        ({"items": [1], "outputs": 2, "specs": (TensorSpec(),)}, "read.items: 1 specs for outputs=2"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], message: str):
    with pytest.raises(ArgumentError) as caught:
        reading(**arguments)
    assert str(caught.value) == message
