"""Long proofs, run by hand: each writes docs/proof/NAME.md with the command, the date and what came out."""

import os

os.environ["REFLECTLOOP_TRUST_PROJECT"] = "1"  # proofs write the settings of their projects themselves
