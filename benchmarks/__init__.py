"""pipeplug side by side with what else does the work: `python -m benchmarks NAME`."""
