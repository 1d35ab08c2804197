"""Agents: each algorithm is one file that reads top to bottom."""
