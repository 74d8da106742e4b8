from __future__ import annotations

import numpy as np
import pytest

from pipeplug import Batch, Outputs, PipeplugError


@pytest.fixture
def outputs() -> Outputs:
    batches = {"image": Batch.equal(np.zeros((2, 3))), "label": Batch.objects(["a", "b"])}
    return Outputs(batches, np.array([4, 5]), np.array([40, 50]), 1, 7, ())


def test_a_mapping_in_the_order_of_the_function(outputs: Outputs):
    assert list(outputs) == ["image", "label"]
    assert len(outputs) == 2
    assert "label" in outputs
    assert dict(outputs)["label"].list() == ["a", "b"]
    assert [len(batch) for batch in outputs.values()] == [2, 2]
    assert (outputs.positions.tolist(), outputs.padding, outputs.epoch, outputs.failures) == ([4, 5], 1, 7, ())


def test_an_unknown_name(outputs: Outputs):
    with pytest.raises(PipeplugError, match=r"^no output 'picture'; there are 'image', 'label'$"):
        outputs["picture"]
    assert outputs.get("picture") is None


def test_shows_what_is_in_it(outputs: Outputs):
    assert repr(outputs) == "Outputs(image=Batch(2 x float64 (3), cpu), label=Batch(2 x object, cpu))"
