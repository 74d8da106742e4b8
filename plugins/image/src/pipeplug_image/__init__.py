"""Image operators of pipeplug: decoding, geometry, colour, layout."""
