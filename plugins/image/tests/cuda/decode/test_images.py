"""Sets of images: how large they grow, and when they are used again."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from pipeplug import MemoryLimitError
from pipeplug_image.codecs.images import ImageSet, ImageShelf, Loan


class Picture:
    """A picture of so many bytes, None for one that the decoder refuses."""

    def __init__(self, size):
        self.size = size


class Image:
    def __init__(self):
        self.capacity = 0


class Decoder:
    """Decodes pictures of which only the size is known."""

    def decode(self, streams, *, images=None, params, cuda_stream):
        assert images is None or len(images) == len(streams)
        results = []
        for stream, image in zip(streams, images or [None] * len(streams), strict=True):
            image = image or Image()
            image.capacity = max(image.capacity, stream.size)
            results.append(None if stream.size % 2 else image)
        return results


def decode(images, sizes):
    sizes = np.sort(np.array(sizes, np.int64))
    grown = images.grown(sizes)
    results = images.decode(Decoder(), [Picture(size) for size in sizes.tolist()], sizes, None)
    assert images.nbytes <= grown.sum()
    return results


def images_of(context):
    return ImageSet(context.stream)


def test_capacities_are_those_of_the_images(context):
    images, random = images_of(context), np.random.default_rng(0)
    for count in (5, 9, 3, 9, 12, 1, 12):
        results = decode(images, random.integers(1, 500, count) * 2)
        assert len(results) == count
        assert len({id(each) for each in results}) == count
        assert [each.capacity for each in images._images] == images.capacities.tolist()
        assert images.capacities.tolist() == sorted(images.capacities.tolist())


def test_images_grow_to_the_largest_at_their_place_in_the_order(context):
    images = images_of(context)
    decode(images, [10, 20, 1000])
    first = list(images._images)
    decode(images, [12, 900, 18])
    assert images.capacities.tolist() == [12, 20, 1000]
    assert images._images == first
    decode(images, [4, 2000])
    assert images.capacities.tolist() == [12, 20, 2000]
    decode(images, [2, 4, 6, 8])
    assert images.capacities.tolist() == [2, 12, 20, 2000]


def test_what_is_refused_gets_no_image_and_keeps_the_one_that_it_was_to_get(context):
    images = images_of(context)
    assert [each is None for each in decode(images, [10, 15, 20])] == [False, True, False]
    assert images.capacities.tolist() == [10, 20]
    assert [each is None for each in decode(images, [11, 31])] == [True, True]
    assert images.capacities.tolist() == [11, 31]
    assert [each.capacity for each in images._images] == [11, 31]


def test_a_set_comes_back_by_its_loan_and_is_used_when_its_work_has_ended(context):
    shelf, sizes = ImageShelf(), np.array([10, 20])
    images = shelf.take(context, sizes)
    assert images.stream in context.stream.made  # not the stream of a task
    assert context.reserved[images] == 30
    other = shelf.take(context, sizes)
    assert other is not images
    assert other.stream is images.stream
    assert len(context.stream.made) == 1
    event = _Event()
    Loan(images, shelf)(event)
    assert event.synced == 0
    assert shelf.take(context, sizes) is images
    assert event.synced == 1


class _Event:
    synced = 0

    def sync(self):
        self.synced += 1


def test_idle_sets_are_given_up_where_memory_is_limited(new_context):
    context, shelf = new_context(memory_limit=100), ImageShelf()
    sets = [shelf.take(context, np.array([30])) for _ in range(3)]
    for images in sets:
        shelf.put_back(images, None)
    assert sum(context.reserved.values()) == 90
    taken = shelf.take(context, np.array([80]))
    assert context.reserved[taken] == 80
    assert sum(context.reserved.values()) == 80
    with pytest.raises(MemoryLimitError, match="30 bytes do not fit"):
        shelf.take(context, np.array([30]))
    shelf.put_back(taken, None)
    other = shelf.take(context, np.array([90]))
    assert context.reserved[other] == sum(context.reserved.values()) == 90


def test_what_comes_back_after_the_end_is_let_go_in_the_order_of_its_work(context):
    shelf = ImageShelf()
    waiting, lent = (shelf.take(context, np.array([10])) for _ in range(2))
    before, after = _Event(), _Event()
    shelf.put_back(waiting, before)
    stream, gone = lent.stream, [weakref.ref(waiting), weakref.ref(lent)]
    shelf.close()
    loan = Loan(lent, shelf)
    del waiting, lent
    loan(after)
    gc.collect()
    assert [each() for each in gone] == [None, None]
    assert stream.waited == [before, after]
    assert before.synced == after.synced == 0
