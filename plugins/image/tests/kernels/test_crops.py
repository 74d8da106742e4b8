from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pipeplug_image.kernels.crops import TRIES, random_resized_crop_box

UNIFORMS = 2 * TRIES + 2


def boxes_of(uniforms, shapes, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
    """The boxes for uniform numbers: an area and a ratio a try, then y and x."""
    tries = uniforms[:, : 2 * TRIES].reshape(-1, TRIES, 2)
    areas = scale[0] + (scale[1] - scale[0]) * tries[..., 0]
    aspects = np.exp(math.log(ratio[0]) + (math.log(ratio[1]) - math.log(ratio[0])) * tries[..., 1])
    return np.array(
        [
            random_resized_crop_box(tuple(shape), list(zip(share, aspect, strict=True)), tuple(place), ratio)
            for shape, share, aspect, place in zip(
                shapes.tolist(), areas.tolist(), aspects.tolist(), uniforms[:, -2:].tolist(), strict=True
            )
        ]
    )


def one_box(uniforms, height, width, scale, ratio):
    """The law written for one image, as torchvision's documentation states it."""
    for attempt in range(TRIES):
        area = height * width * (scale[0] + (scale[1] - scale[0]) * uniforms[2 * attempt])
        low, high = math.log(ratio[0]), math.log(ratio[1])
        aspect = math.exp(low + (high - low) * uniforms[2 * attempt + 1])
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            y, x = (int(u * (n + 1)) for u, n in zip(uniforms[-2:], (height - h, width - w), strict=True))
            return [y, x, h, w]
    h, w = height, width
    if width / height < ratio[0]:
        h = max(round(width / ratio[0]), 1)
    elif width / height > ratio[1]:
        w = max(round(height * ratio[1]), 1)
    return [(height - h) // 2, (width - w) // 2, h, w]


@given(
    st.integers(0, 2**32),
    st.sampled_from([(0.08, 1.0), (0.9, 1.0), (0.001, 0.01)]),
    st.sampled_from([(3 / 4, 4 / 3), (2.0, 4.0)]),
)
def test_boxes_follow_the_law(seed, scale, ratio):
    random = np.random.default_rng(seed)
    shapes = random.integers(1, [40, 900], (32, 2))
    uniforms = random.random((32, UNIFORMS))
    boxes = boxes_of(uniforms, shapes, scale, ratio)
    one_by_one = zip(uniforms.tolist(), shapes.tolist(), strict=True)
    assert boxes.tolist() == [one_box(row, height, width, scale, ratio) for row, (height, width) in one_by_one]
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] >= 1).all()
    assert (boxes[:, :2] + boxes[:, 2:] <= shapes).all()


def test_the_fallback_is_central():
    uniforms = np.full((2, UNIFORMS), 0.5)
    assert boxes_of(uniforms, np.array([[100, 1000], [1000, 100]]), (1.0, 1.0)).tolist() == [
        [0, 433, 100, 133],
        [433, 0, 133, 100],
    ]


def test_the_statistics_of_the_law():
    random = np.random.default_rng(0)
    boxes = boxes_of(random.random((20000, UNIFORMS)), np.tile([2000, 2000], (20000, 1)), (0.1, 0.5))
    y, x, height, width = boxes.T
    # No try misses a square image at half its area: area and log-ratio are uniform, and so is the place.
    assert stats.kstest(height * width / 2000**2, stats.uniform(0.1, 0.4).cdf).pvalue > 0.01
    assert stats.kstest(np.log(width / height), stats.uniform(math.log(3 / 4), 2 * math.log(4 / 3)).cdf).pvalue > 0.01
    for start, size in ((y, height), (x, width)):
        assert stats.kstest((start + random.random(20000)) / (2001 - size), "uniform").pvalue > 0.01
    assert np.corrcoef(y / (2001 - height), x / (2001 - width))[0, 1] == pytest.approx(0.0, abs=0.03)
