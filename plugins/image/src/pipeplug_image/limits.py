"""The limit on pictures that keeps a small file from taking all memory."""

from __future__ import annotations

MAX_PIXELS = 2**28
"""The most pixels, width * height, that are decoded unless asked otherwise: 16,384 squared, 0.8 GB of RGB.

It admits the largest pictures of cameras and scanners. Of Pillow's limits
those for WebP and TIFF, 1.8e8, stay in force as well (`PIL.Image.MAX_IMAGE_PIXELS`).
"""
