"""For all tests."""

import os

from hypothesis import settings

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A shell in which `eval "$(holdfast env)"` was pasted names another server than the tests start.
_FOREIGN = ("AWS_", "HOLDFAST__", "HOLDFAST_ACCESS", "HOLDFAST_SECRET")
for _name in [name for name in os.environ if name.startswith(_FOREIGN)]:
    del os.environ[_name]
