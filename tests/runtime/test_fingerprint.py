import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeplug import Context, Operator, PerSample, Source, Tensor, TensorSpec, ops
from pipeplug.graph.trace import trace
from pipeplug.runtime.fingerprint import fingerprint


class Origin(Source):
    root: str | Path = "data"
    specs: tuple[TensorSpec, ...] = ()
    more: object = None

    def infer(self) -> TensorSpec:
        return TensorSpec()


class Gain(Operator):
    by: PerSample[float] = 1.0

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def draw(self, random):
        return {"noise": random.uniform()}

    def cpu(self, image: Tensor, context: Context, *, by: float, noise: float) -> Tensor:
        return image


def forwards(epoch: int) -> Sequence[int]:
    return range(3)


def of(source: Source | None = None, *, seed: int = 0, length: int | None = 3, name: str | None = None, **gain) -> str:
    key = gain.pop("key", None)
    made = source or Origin()
    return fingerprint(trace(lambda: {"image": Gain(**gain)(made(), name=name, key=key)}), seed, length)


def test_it_is_the_same_for_the_same():
    assert of() == of()
    assert len(of()) == 32


def test_it_tells_apart_what_delivers_other_samples():
    different = [
        of(),
        of(seed=1),
        of(length=4),
        of(length=None),
        of(by=2),
        of(name="gain"),
        of(key="shared"),
        of(Origin(shuffle=True)),
        of(Origin(sampler=forwards)),
        of(Origin(root="other")),
        of(Origin(specs=(TensorSpec((3,)),))),
        of(Origin(specs=(TensorSpec((4,)),))),
        of(Origin(more=[1, 2])),
        of(Origin(more=[1, 3])),
        fingerprint(trace(lambda: {"other": Gain()(Origin()())}), 0, 3),
        fingerprint(trace(lambda: {"image": Gain()(Gain()(Origin()()))}), 0, 3),
    ]
    assert len(set(different)) == len(different)


def test_it_does_not_see_what_changes_nothing():
    assert of(Origin(shard=(1, 2))) == of()
    assert of(Origin(root=Path("data"))) == of()


def test_it_does_not_see_where_files_lie(tmp_path):
    def of_files(root):
        return fingerprint(trace(lambda: ops.read.files(root)), 0, 3)

    assert of_files(tmp_path / "here") == of_files(tmp_path / "there")


def test_it_is_the_same_in_another_process():
    code = (
        "from pipeplug import ops; from pipeplug.graph.trace import trace; from pipeplug.runtime.fingerprint import *;"
        "print(fingerprint(trace(lambda: ops.map(len, ops.read.items([object(), {1, 2}]))), 3, 2))"
    )
    command = [sys.executable, "-c", code]
    assert len({subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)}) == 1
