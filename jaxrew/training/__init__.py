"""Rollouts, returns, statistics, and the host loop that trains many seeds at once."""
