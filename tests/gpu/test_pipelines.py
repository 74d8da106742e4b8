"""What runs on a GPU that is none runs on a card; and what only a card can show."""

import numpy as np
import pytest

from pipeplug import Batch, CudaContext, CudaSource, DeviceError, Operator, TensorSpec, ops, pipeline
from tests.fakes.scale import SCALE, Scale
from tests.integration.test_devices import *  # noqa: F403
from tests.integration.test_devices import VALUES, scaled


@pytest.fixture(autouse=True)  # type: ignore[no-redef]
def device() -> None:
    """The card itself, in the place of the one that is none."""


def test_functions_get_arrays_of_cupy():
    cupy = pytest.importorskip("cupy")

    @pipeline(batch_size=8, threads=2, device="cuda:0")
    def mapped():
        values = Scale(factor=2.0)(ops.read.arrays(VALUES))
        rows = ops.map(lambda array: cupy.negative(array), values, device="cuda:0")
        whole = ops.map(lambda array: array.sum(axis=(1, 2)), values, batch=True, device="cuda:0")
        return {"rows": rows, "sums": whole}

    with mapped() as batches:
        for batch in batches:
            expected = VALUES[batch.indices] * -2
            assert np.array_equal(batch["rows"].to("cpu").numpy(), expected)
            assert np.allclose(batch["sums"].to("cpu").numpy(), -expected.sum(axis=(1, 2)), rtol=1e-5)


def test_a_kernel_that_does_not_compile_ends_the_epoch_and_nothing_else(tmp_path):
    (tmp_path / "broken.cu").write_text('extern "C" __global__ void broken(int* a) { a[0] = nothing; }')
    broken = CudaSource(tmp_path / "broken.cu").kernel("broken", WHAT="this")

    class Broken(Operator):
        def infer(self, values: TensorSpec) -> TensorSpec:
            return values

        def cuda(self, values: Batch, context: CudaContext) -> Batch:
            context.launch(broken, (1,), (1,), 0)
            return values

    @pipeline(batch_size=4, threads=2, device="cuda:0", on_error="skip")
    def pipe():
        return Broken()(ops.read.arrays(VALUES))

    for _ in range(2):
        with pipe() as batches, pytest.raises(DeviceError, match=r"broken\.cu -DWHAT=this does not compile for sm_"):
            next(iter(batches))
    with scaled() as batches:
        assert sum(len(batch["values"]) for batch in batches) == 50


def test_a_card_that_is_not_there():
    with pytest.raises(DeviceError, match=r"cuda:99 cannot be used: this machine has \d+ GPU\(s\)"):
        scaled.using(device="cuda:99")().__enter__()


def test_the_kernel_compiles_once_for_all():
    assert SCALE.compile("sm_90") == SCALE.compile("sm_90")
