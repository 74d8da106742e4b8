import numpy as np
import pytest

from pipeplug import SpecError, TensorSpec
from pipeplug.spec import DTYPES

IMAGE = TensorSpec((224, None, 3), "uint8", "HWC")


def test_the_sizes_of_dtypes_are_those_of_numpy():
    assert {name: np.dtype(name).itemsize for name in DTYPES} == DTYPES


def test_what_is_known():
    assert TensorSpec((4, 5), "float32").is_static
    assert TensorSpec((), "bool").is_static
    assert not IMAGE.is_static
    assert not TensorSpec((4,)).is_static
    assert not TensorSpec(None, "uint8").is_static
    assert not TensorSpec.object().is_static
    assert TensorSpec.object().is_object


def test_bytes_of_a_sample():
    assert TensorSpec((4, 5), "float32").nbytes == np.zeros((4, 5), np.float32).nbytes
    assert TensorSpec((), "complex128").nbytes == 16
    assert TensorSpec((0, 7), "int64").nbytes == 0


@pytest.mark.parametrize("spec", [IMAGE, TensorSpec(None, "uint8"), TensorSpec((3,)), TensorSpec.object()])
def test_bytes_that_are_not_known(spec: TensorSpec):
    with pytest.raises(SpecError, match=r"the size of .* is not known"):
        _ = spec.nbytes


def test_a_shape_that_is_not_known():
    with pytest.raises(SpecError) as caught:
        IMAGE.known_shape()
    assert str(caught.value) == "the size of uint8 (224, ?, 3) HWC is not known"
    assert TensorSpec((2, 3)).known_shape() == (2, 3)


def test_axes():
    assert [IMAGE.axis(letter) for letter in "HWC"] == [0, 1, 2]
    with pytest.raises(SpecError, match="needs a layout with F, got 'HWC'"):
        IMAGE.axis("F")
    with pytest.raises(SpecError, match="needs a layout with C, got None"):
        TensorSpec((4, 4, 3)).axis("C")


def test_changes_leave_the_rest():
    assert IMAGE.with_shape([1, 2, 3]) == TensorSpec((1, 2, 3), "uint8", "HWC")
    assert IMAGE.with_shape(None).shape is None
    assert IMAGE.with_dtype("float32") == TensorSpec((224, None, 3), "float32", "HWC")
    assert IMAGE.with_layout(None) == TensorSpec((224, None, 3), "uint8")


def test_a_list_is_as_good_a_shape_as_a_tuple():
    spec = TensorSpec([4, None], "uint8")  # type: ignore[arg-type]
    assert spec == TensorSpec((4, None), "uint8")
    assert hash(spec) == hash(TensorSpec((4, None), "uint8"))


@pytest.mark.parametrize("dtype", ["uint4", "float", np.dtype("uint8"), ""])
def test_unknown_dtypes(dtype):
    with pytest.raises(SpecError, match=r"unknown dtype .*; known are bool, uint8, .*complex128 and 'object'"):
        TensorSpec((3,), dtype)


def test_a_layout_has_a_letter_a_dimension():
    with pytest.raises(SpecError, match=r"layout 'HWC' does not have as many letters as shape \(4, 4\) has sizes"):
        TensorSpec((4, 4), "uint8", "HWC")


@pytest.mark.parametrize(
    ("other", "admitted"),
    [
        (TensorSpec((224, 7, 3), "uint8", "HWC"), True),
        (TensorSpec((224, 7, 3), "uint8"), True),
        (TensorSpec((225, 7, 3), "uint8", "HWC"), False),
        (TensorSpec((224, 7), "uint8"), False),
        (TensorSpec((224, 7, 3), "int8", "HWC"), False),
        (TensorSpec((224, 7, 3), "uint8", "CHW"), False),
        (TensorSpec(None, "uint8"), False),
    ],
)
def test_what_a_spec_admits(other: TensorSpec, admitted: bool):
    assert IMAGE.admits(other) is admitted
    assert TensorSpec().admits(other)


def test_text():
    assert str(IMAGE) == "uint8 (224, ?, 3) HWC"
    assert str(TensorSpec()) == "? (…)"
    assert str(TensorSpec.object()) == "object"
