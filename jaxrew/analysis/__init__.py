"""Statistics over seeds, and the figures and tables that go into a paper."""

from jaxrew.analysis.figures import learning_curves
from jaxrew.analysis.stats import interval, iqm, probability_of_improvement
from jaxrew.analysis.tables import table

__all__ = ["interval", "iqm", "learning_curves", "probability_of_improvement", "table"]
