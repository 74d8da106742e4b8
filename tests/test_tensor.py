import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeplug import Batch, SpecError, Tensor, TensorSpec

IMAGES = np.arange(2 * 3 * 4).reshape(2, 3, 4).astype(np.uint8)


def ragged(*shapes: tuple[int, ...], dtype: str = "uint8", layout: str | None = None) -> Batch:
    return Batch.ragged([Tensor(np.full(shape, number + 1, dtype), layout) for number, shape in enumerate(shapes)])


class TestTensor:
    def test_it_describes_its_array(self):
        tensor = Tensor(IMAGES, "FHW")
        assert (tensor.shape, tensor.dtype, tensor.device) == ((2, 3, 4), "uint8", "cpu")
        assert tensor.spec == TensorSpec((2, 3, 4), "uint8", "FHW")
        assert repr(tensor) == "Tensor(uint8 (2, 3, 4) FHW, cpu)"

    def test_it_shares_its_memory(self):
        tensor = Tensor(IMAGES)
        assert tensor.numpy() is IMAGES
        assert np.shares_memory(np.from_dlpack(tensor), IMAGES)
        assert tensor.__dlpack_device__() == (1, 0)

    def test_it_is_an_array_to_numpy(self):
        np.testing.assert_array_equal(np.asarray(Tensor(IMAGES)), IMAGES)
        assert np.shares_memory(np.asarray(Tensor(IMAGES)), IMAGES)
        assert not np.shares_memory(np.array(Tensor(IMAGES)), IMAGES)
        assert np.asarray(Tensor(IMAGES), np.float32).dtype == np.float32


class TestEqualBatches:
    batch = Batch.equal(IMAGES, "HW")

    def test_it_describes_a_sample(self):
        assert self.batch.spec == TensorSpec((3, 4), "uint8", "HW")
        assert (self.batch.dtype, self.batch.device, self.batch.nbytes) == ("uint8", "cpu", 24)
        assert self.batch.is_equal
        assert not self.batch.is_object
        assert repr(self.batch) == "Batch(2 x uint8 (3, 4) HW, cpu)"

    def test_samples_are_views(self):
        assert len(self.batch) == 2
        assert [sample.spec for sample in self.batch] == [TensorSpec((3, 4), "uint8", "HW")] * 2
        assert np.shares_memory(self.batch[-1].numpy(), IMAGES[1])
        assert all(np.shares_memory(row, IMAGES) for row in self.batch.list())
        with pytest.raises(IndexError):
            self.batch[2]

    def test_exports_share_the_memory(self):
        assert self.batch.numpy() is IMAGES
        assert np.shares_memory(np.from_dlpack(self.batch), IMAGES)
        assert self.batch.__dlpack_device__() == (1, 0)
        assert np.shares_memory(np.asarray(self.batch), IMAGES)

    def test_slices_are_views(self):
        part = self.batch[1:]
        assert isinstance(part, Batch)
        assert (len(part), part.layout) == (1, "HW")
        assert np.shares_memory(part.numpy(), IMAGES)

    def test_padding_what_fits_already_costs_nothing(self):
        assert self.batch.pad() is self.batch
        assert self.batch.pad(shape=(3, None)) is self.batch

    def test_padding_to_more(self):
        padded = self.batch.pad(9, (None, 6))
        assert padded.layout == "HW"
        np.testing.assert_array_equal(padded.numpy(), np.pad(IMAGES, ((0, 0), (0, 0), (0, 2)), constant_values=9))

    @given(st.lists(st.integers(-2, 1)))
    def test_taking_rows(self, rows: list[int]):
        np.testing.assert_array_equal(self.batch.take(rows).numpy(), IMAGES[np.array(rows, np.intp)])

    def test_memory_of_taken_rows_is_asked_for(self):
        asked = []

        def empty(shape: tuple[int, ...], dtype: str):
            asked.append((shape, dtype))
            return np.empty(shape, dtype)

        assert self.batch.take(range(1), empty).layout == "HW"
        assert asked == [((1, 3, 4), "uint8")]

    @pytest.mark.parametrize("row", [2, -3])
    def test_rows_that_are_not_there(self, row: int):
        with pytest.raises(IndexError):
            self.batch.take([row])
        with pytest.raises(IndexError):
            ragged((1,), (2,)).take([row])


class TestRaggedBatches:
    batch = ragged((2, 3), (4, 3), layout="HW")

    def test_it_describes_what_samples_share(self):
        assert self.batch.spec == TensorSpec((None, 3), "uint8", "HW")
        assert (self.batch.dtype, self.batch.nbytes) == ("uint8", 18)
        assert not self.batch.is_equal
        assert not self.batch.is_object
        assert repr(self.batch) == "Batch(2 x uint8 (?, 3) HW, cpu)"

    def test_samples(self):
        assert [sample.shape for sample in self.batch] == [(2, 3), (4, 3)]
        assert self.batch.list()[1] is self.batch[1].numpy()
        assert self.batch[:1].spec == TensorSpec((2, 3), "uint8", "HW")
        assert [sample.shape for sample in self.batch.take([1, 1, 0])] == [(4, 3), (4, 3), (2, 3)]

    def test_samples_of_one_shape_stack(self):
        np.testing.assert_array_equal(ragged((2,), (2,)).numpy(), [[1, 1], [2, 2]])
        assert np.from_dlpack(ragged((2,), (2,))).shape == (2, 2)

    def test_others_do_not_and_are_told(self):
        many = ragged(*((size, 3) for size in range(6)))
        with pytest.raises(SpecError) as caught:
            many.numpy()
        assert str(caught.value) == (
            "samples of shapes (0, 3), (1, 3), (2, 3), (3, 3), … do not fit in one array; "
            "take batch.pad() or batch.list()"
        )
        with pytest.raises(SpecError, match=r"take batch\.pad"):
            np.asarray(self.batch)
        with pytest.raises(SpecError, match=r"take batch\.pad"):
            np.from_dlpack(self.batch)

    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=5), st.integers(0, 9))
    def test_padding(self, shapes: list[tuple[int, int]], fill: int):
        padded = ragged(*shapes).pad(fill)
        height, width = (max(sizes) for sizes in zip(*shapes, strict=True))
        assert padded.numpy().shape == (len(shapes), height, width)
        for number, ((rows, columns), sample) in enumerate(zip(shapes, padded.numpy(), strict=True)):
            assert (sample[:rows, :columns] == number + 1).all()
            assert (sample.sum(dtype=int) - (number + 1) * rows * columns) == fill * (height * width - rows * columns)

    def test_padding_to_a_shape(self):
        padded = self.batch.pad(0, (None, 5))
        assert padded.spec == TensorSpec((4, 5), "uint8", "HW")
        assert ragged((), ()).pad().numpy().tolist() == [1, 2]

    def test_padding_to_less(self):
        with pytest.raises(SpecError, match=r"cannot pad to \(3, 3\): the largest sample takes \(4, 3\)"):
            self.batch.pad(shape=(3, None))
        with pytest.raises(SpecError, match=r"cannot pad to \(0, 3\)"):
            self.batch.pad(shape=(0, 3))

    def test_padding_to_other_dimensions(self):
        with pytest.raises(SpecError, match=r"cannot pad to \(9,\): the samples have 2 dimensions"):
            self.batch.pad(shape=(9,))

    def test_samples_agree_in_dtype_and_number_of_dimensions(self):
        with pytest.raises(SpecError, match="got uint8 of 1 dimensions and uint8 of 2 dimensions"):
            ragged((2,), (2, 2))
        with pytest.raises(SpecError, match="got float32 of 1 dimensions and uint8 of 1 dimensions"):
            Batch.ragged([Tensor(np.zeros(2, np.uint8)), Tensor(np.zeros(2, np.float32))])

    def test_it_is_made_of_arrays_as_well(self):
        batch = Batch.ragged([np.zeros((2, 3)), np.zeros((1, 3))], "HW")
        assert [sample.spec for sample in batch] == [
            TensorSpec((2, 3), "float64", "HW"),
            TensorSpec((1, 3), "float64", "HW"),
        ]

    def test_its_layout_is_that_of_its_samples(self):
        batch = Batch.ragged([Tensor(np.zeros((2, 3)), "HW"), Tensor(np.zeros((1, 3)))])
        assert [sample.layout for sample in batch] == ["HW", "HW"]


class TestObjects:
    batch = Batch.objects([b"a", {"b": 1}])

    def test_they_are_what_they_were(self):
        assert self.batch.is_object
        assert self.batch.spec == TensorSpec.object()
        assert (self.batch.dtype, self.batch.nbytes) == ("object", 0)
        assert self.batch.list() == list(self.batch) == [b"a", {"b": 1}]
        assert self.batch.take([1]).list() == [{"b": 1}]
        assert repr(self.batch) == "Batch(2 x object, cpu)"

    def test_they_are_no_array(self):
        with pytest.raises(SpecError, match=r"a batch of Python objects is not an array; take batch\.list\(\)"):
            self.batch.numpy()
        with pytest.raises(SpecError, match=r"a batch of Python objects cannot be padded; take batch\.list\(\)"):
            self.batch.pad()


class TestEmptyBatches:
    def test_of_equal_samples(self):
        batch = Batch.equal(np.zeros((0, 4, 5), np.int16))
        assert (len(batch), list(batch), batch.list(), batch.nbytes) == (0, [], [], 0)
        assert batch.spec == TensorSpec((4, 5), "int16")
        assert batch.pad() is batch
        assert batch.pad(0, (6, None)).numpy().shape == (0, 6, 5)
        assert batch.take([]).numpy().shape == (0, 4, 5)

    def test_of_nothing_known(self):
        batch = Batch.ragged([])
        assert (len(batch), batch.list(), batch.take([]).list()) == (0, [], [])
        with pytest.raises(SpecError, match=r"take batch\.list\(\)"):
            batch.numpy()


@given(st.lists(st.integers(0, 5), max_size=6), st.slices(6))
def test_slices_agree_with_lists(items: list[int], part: slice):
    array = np.array(items, np.int64)
    assert [int(sample.numpy()) for sample in Batch.equal(array)[part]] == items[part]
    assert list(Batch.objects(items)[part]) == items[part]
