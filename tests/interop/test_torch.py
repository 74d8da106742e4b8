import sys
from types import ModuleType

import numpy as np
import pytest

from pipeplug import Batch, SpecError, Tensor


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The arrays that PyTorch gets; a stand-in takes its place, which gives them back."""
    arrays: list[np.ndarray] = []

    class Torch(ModuleType):
        def from_numpy(self, array: np.ndarray) -> np.ndarray:
            arrays.append(array)
            return array

    monkeypatch.setitem(sys.modules, "torch", Torch("torch"))
    return arrays


@pytest.mark.parametrize("thing", [Tensor(np.zeros(3)), Batch.equal(np.zeros((2, 3)))])
def test_without_pytorch_there_is_advice(thing: Tensor | Batch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError) as caught:
        thing.torch()
    assert str(caught.value) == "`.torch()` needs PyTorch: pip install torch"


def test_memory_is_shared(given: list[np.ndarray]):
    array = np.zeros((2, 3))
    Tensor(array).torch()
    Batch.equal(array).torch()
    Tensor(array.T).torch()
    assert all(np.shares_memory(each, array) for each in given)


def test_what_pytorch_cannot_share_is_copied(given: list[np.ndarray]):
    array = np.arange(6.0).reshape(2, 3)
    fixed = array.copy()
    fixed.flags.writeable = False
    Tensor(array[:, ::-1]).torch()
    Tensor(fixed).torch()
    np.testing.assert_array_equal(given[0], array[:, ::-1])
    assert min(given[0].strides) > 0
    np.testing.assert_array_equal(given[1], array)
    assert given[1].flags.writeable


def test_ragged_batches_are_refused(given: list[np.ndarray]):
    with pytest.raises(SpecError, match=r"take batch\.pad\(\) or batch\.list\(\)"):
        Batch.ragged([np.zeros(2), np.zeros(3)]).torch()
    assert given == []
