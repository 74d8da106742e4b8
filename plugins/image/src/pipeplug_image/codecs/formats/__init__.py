"""The structure of the formats: each module reads a header and finds out whether a file ends too early."""
