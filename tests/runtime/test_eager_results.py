"""Results of eager calls are held to `infer` as those of a pipeline are."""

import numpy as np
import pytest

from pipeplug import Context, DeclarationError, Operator, Tensor, TensorSpec


class Half(Operator):
    """Says that it gives a whole number, and does not."""

    def infer(self, number: TensorSpec) -> TensorSpec:
        return TensorSpec((), "int64")

    def cpu(self, number: Tensor, context: Context) -> float:
        return 0.5


def test_a_half_is_not_cut_to_a_whole_number():
    with pytest.raises(DeclarationError, match="infer says int64"):
        Half()(np.zeros(()))
