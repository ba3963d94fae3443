"""Optimisers are arithmetic on arrays here: update rules, schedules, updates layer by layer."""
