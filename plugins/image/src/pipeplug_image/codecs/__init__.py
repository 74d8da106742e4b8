"""Encoded pictures to pixels and back: functions from bytes to arrays, without operators.

`probe` and `header` read headers and need nothing but the standard library; `decode` and `encode` do the pixels.
"""
