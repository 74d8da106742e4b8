"""Pixel work: pure functions from arrays to arrays.

Images are (height, width, channels) with 1, 3 (RGB) or 4 (RGBA) channels, or (height, width); results have the dtype
and, unless it says otherwise, the shape of the input. With `out=` the result is written there, in place when that array
is contiguous, and `out` is what is returned; without, it may be the input itself or a view of it.
"""
