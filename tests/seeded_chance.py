"""Let the surroundings of extra runs be the same in every run of the suite.

The engine draws them when its modules are imported, so the tests import this module before all others.
"""

from __future__ import annotations

import random

from reflectloop.verification import chance

chance.SOURCE = random.Random(5)
