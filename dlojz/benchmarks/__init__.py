"""Benchmarks of the kit itself: commands that print tables, not tests."""
