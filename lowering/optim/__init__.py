"""Optimisers as arithmetic on arrays: update rules, schedules, updates layer by layer."""
