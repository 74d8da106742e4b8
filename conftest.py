"""Settings of all tests."""

from hypothesis import settings

# A busy machine is not a fault of the code, so examples have no deadline.
settings.register_profile("pipeplug", deadline=None, print_blob=True)
settings.load_profile("pipeplug")
