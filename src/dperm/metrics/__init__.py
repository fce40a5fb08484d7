"""How good a model is, with a guarantee for the records that it is evaluated on."""

from dperm.metrics.evaluate import evaluate
from dperm.metrics.evaluation import Evaluation
from dperm.metrics.intervals import Estimate

__all__ = ["Estimate", "Evaluation", "evaluate"]
