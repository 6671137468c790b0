"""Long proofs, run by hand: each writes docs/proof/NAME.md with the command, the date and what came out."""
