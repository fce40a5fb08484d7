"""Evaluation of models, with a privacy guarantee for the records that they are evaluated on."""

from dperm.metrics.evaluate import evaluate
from dperm.metrics.evaluation import Evaluation
from dperm.metrics.intervals import Estimate

__all__ = ["Estimate", "Evaluation", "evaluate"]


def __dir__() -> list[str]:
    return sorted(__all__)
