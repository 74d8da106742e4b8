"""What goes wrong when memory is used again too early: a tiny pool, long kernels, another stream, early drops."""

import numpy as np
import pytest

from pipeplug import ops, pipeline
from tests.fakes.scale import Scale

BATCHES = 10_000
ROWS, SIZE = 4, 4096


@pytest.mark.parametrize("prefetch", [1, 3])
def test_checksums_over_many_batches(prefetch):
    torch = pytest.importorskip("torch")
    values = np.arange(256, dtype=np.float32)[:, None] + np.zeros((1, SIZE), np.float32)
    count = BATCHES // 2

    @pipeline(
        batch_size=ROWS,
        threads=4,
        prefetch=prefetch,
        device="cuda:0",
        memory_limit={"cuda:0": 5 * ROWS * SIZE * 4 * (prefetch + 1)},
    )
    def racing():
        doubled = Scale(factor=2.0, spins=20_000)(ops.read.arrays(values))
        return {"values": Scale(factor=1.5, spins=20_000)(doubled)}

    side = torch.cuda.Stream()
    sums = torch.zeros((count, ROWS), dtype=torch.float64, device="cuda:0")
    expected = np.zeros((count, ROWS))
    side.wait_stream(torch.cuda.current_stream())
    done = 0
    with racing() as batches:
        while done < count:
            for batch in batches:
                with torch.cuda.stream(side):
                    tensor = batch["values"].torch()
                    torch.cuda._sleep(30_000)  # it is read long after the loop has let go of it
                    sums[done] = tensor.double().sum(dim=1)
                expected[done] = 3.0 * values[batch.indices, 0] * SIZE
                del tensor, batch
                done += 1
                if done == count:
                    break
        use = batches.memory()["cuda:0"]
    side.synchronize()
    assert np.array_equal(sums.cpu().numpy(), expected)
    assert use.limit is not None
    assert use.taken_peak <= use.limit
