"""The numbers that decide how calls, tapes and updates run: what waits, what is compiled together, and what is kept.

Each is read where it decides, so that a test or a measurement may set another. `benchmarks/tape_policy.py` measures
what they rest on.
"""

LONGEST = 32
"""Calls of a tape that is short, which one program of all differentiates: the calls of longer ones are worth their
time."""

MOST_WAITING = 8
"""So many calls wait for each other, or are computed together with their gradients; a longer chain runs."""

PATIENCE_WITH_TAPES = 2
"""So many times a tape is differentiated call by call before its program is compiled: one whose calls ran, or whose
functions are all called by many tapes, as those of a tree's nodes are."""

MOST_TAPES = 4
"""Different tapes that call a function and are compiled at once."""

UPDATES = 8
"""So many updates of parameters at most are compiled together with the gradients of a tape."""

UPDATED_OFTEN = 16
"""So many times any but the first update of a tape's gradients is a program of its own."""

SIZES_OF_DRAWS = (4096, 65536)
"""So many numbers are drawn for any smaller shape: compiling a draw of a new shape takes as long as a million draws."""

KEPT_EXPRESSIONS = 4096
"""So many different expressions, and calls, keep their compiled functions."""

KEPT_TAPES = 256
"""So many tapes keep their programs."""

KEPT_BY_A_BLOCK = 64
"""Sets of inputs to differentiate, for which a block keeps functions."""
