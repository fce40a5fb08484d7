"""OpenDP: its linear regression, which supports one column."""

import opendp.prelude as dp
from one_fit import run

dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")


def fit(p):
    def model(scale):
        bounds = {"x_bounds": [(0.0, 1.0)], "y_bounds": (-1.0, 1.0)}
        return dp.sklearn.linear_model.LinearRegression(dp.max_divergence(), **bounds, scale=scale)

    scale = dp.binary_search(lambda s: model(s).measurement.map(1) <= p.epsilon, bounds=(1e-3, 1e6))
    return model(scale).fit(p.X, p.y).predict


run(fit)
