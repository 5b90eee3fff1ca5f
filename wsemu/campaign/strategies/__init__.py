"""Strategies for Hypothesis: valid transfers and launches, and calls that must be rejected."""
