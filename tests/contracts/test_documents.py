"""The examples of README and docs run as they stand."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeplug import ops, pipeline

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def examples(document: str) -> list[str]:
    return BLOCK.findall((ROOT / document).read_text())


def run(code: str, **names: object) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "example", **names}
    exec(compile(code, "example", "exec", dont_inherit=True), space)
    return space


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one function of PyTorch that batches need; the tests do not install PyTorch for it."""
    module = types.ModuleType("torch")
    module.from_numpy = lambda array: array  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)


def test_the_first_pipeline_trains_on_a_folder(tmp_path, monkeypatch, torch):
    from PIL import Image

    for label in ("cats", "dogs"):
        (tmp_path / "data/train" / label).mkdir(parents=True)
        for number in range(3):
            pixels = np.random.default_rng(number).integers(0, 256, (40, 60, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data/train" / label / f"{number}.jpg")
    monkeypatch.chdir(tmp_path)
    steps = []
    run(examples("README.md")[0], step=lambda image, label: steps.append((image, label)))
    (image, label), *others = steps
    assert not others
    assert image.shape == (6, 3, 224, 224)
    assert image.dtype == np.float32
    assert sorted(label) == [0, 0, 0, 1, 1, 1]


def test_the_operator_of_the_readme_inverts():
    invert = run(next(code for code in examples("README.md") if "class Invert" in code))["Invert"]
    assert invert()(np.full((2, 2, 3), 55, np.uint8)).numpy().tolist() == np.full((2, 2, 3), 200).tolist()


def test_the_calls_of_the_readme_are_operators():
    text = (ROOT / "README.md").read_text() + (ROOT / "docs/operators.md").read_text()
    names = set(re.findall(r"\bops\.(image|read|random)\.(\w+)", text))
    assert len(names) > 8
    for namespace, name in names:
        assert callable(getattr(getattr(ops, namespace), name))


@pytest.fixture(scope="module")
def guide() -> dict[str, Any]:
    space: dict[str, Any] = {}
    for code in examples("docs/operators.md"):
        space |= run(code)
    return space


def test_brighten(guide):
    image = np.full((2, 3, 3), 250, np.uint8)
    assert (guide["Brighten"](amount=20)(image).numpy() == 255).all()


def test_random_shift_draws_a_shift_of_its_own_for_every_sample(guide):
    image = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)

    @pipeline(batch_size=4)
    def shifted():
        return guide["RandomShift"](share=0.5)(ops.read.arrays(np.stack([image] * 4), layouts=("HWC",)))

    with shifted() as batches:
        [batch] = batches
    assert len({row.tobytes() for row in batch["0"].list()}) == 4


def test_pairs_move_together(guide):
    images = np.random.default_rng(0).integers(0, 256, (4, 20, 20, 3), np.uint8)
    with guide["pairs"](images, images) as batches:
        for batch in batches:
            assert np.array_equal(batch["image"].numpy(), batch["mask"].numpy())


def test_scale_takes_a_factor_a_sample(guide):
    @pipeline(batch_size=3)
    def scaled():
        values, factor = ops.read.arrays((np.ones((3, 2), np.float32), np.arange(3.0)))
        return guide["Scale"](factor=1.0)(values), ops.map(lambda x: x, factor)

    with scaled() as batches:
        [batch] = batches
    assert batch["0"].numpy().tolist() == [[1, 1]] * 3


def test_running_mean_sees_samples_in_order(guide):
    @pipeline(batch_size=2, threads=4)
    def centred():
        return guide["RunningMean"]()(ops.read.arrays(np.arange(1, 5, dtype=np.float32).reshape(4, 1)))

    with centred() as batches:
        values = np.concatenate([batch["0"].numpy() for batch in batches]).ravel()
    assert values.tolist() == [0.0, 0.5, 1.0, 1.5]


def test_standardize(guide):
    @pipeline(batch_size=5)
    def standard():
        return guide["Standardize"]()(
            ops.read.arrays(np.random.default_rng(0).normal(3, 2, (5, 40)).astype(np.float32))
        )

    with standard() as batches:
        [batch] = batches
    np.testing.assert_allclose(batch["0"].numpy().mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(batch["0"].numpy().std(axis=1), 1, atol=1e-4)


def test_squares(guide):
    assert [guide["Squares"](limit=4).reader()[index] for index in range(4)] == [0, 1, 4, 9]
