"""Cases of _npx_constraint_check."""

from tests.cases import Case, T

CASES = [Case("_npx_constraint_check", (T(2, 3, kind="integers", low=1, high=2, dtype="bool"),), {"msg": "no"})]
