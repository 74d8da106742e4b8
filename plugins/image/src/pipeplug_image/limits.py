"""The limit on pictures that keeps a small file from taking all memory."""

from __future__ import annotations

MAX_PIXELS = 2**28
"""The most pixels, width * height, that are decoded unless asked otherwise: 16,384 squared, 0.8 GB of RGB.

It admits the largest camera and satellite pictures in use, and is a fifth above where Pillow refuses a file.
"""
