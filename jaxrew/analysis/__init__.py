"""Statistics over seeds, and the figures and tables that go into a paper."""
