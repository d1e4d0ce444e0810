"""Settings of all tests: quiet, repeatable property tests."""

from hypothesis import settings

# The first example may compile a kernel, so no deadline; and what fails on one machine must fail on all, so no luck.
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")
