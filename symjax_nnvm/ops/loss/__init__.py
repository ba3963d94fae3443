"""Loss heads, and operators that are losses."""
