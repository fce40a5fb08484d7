"""What users wait for: the import, passes over the records, fits, predictions, charges."""

import tempfile

from dperm import LogisticRegression, algorithms
from dperm.accounting import open_ledger
from problems import objective, passes, problem


def timeraw_import_of_an_estimator():
    """Import in a new process."""
    return "from dperm import LogisticRegression"


class Passes:
    """20,000 rows of 120 numbers."""

    params = ("float32", "float64")
    param_names = ("dtype",)

    def setup(self, dtype):
        self.gradient, self.line_search = passes(objective("small", dtype), *problem("small", dtype)[2:])

    def time_gradient(self, dtype):
        self.gradient()

    def time_line_search(self, dtype):
        self.line_search()


class Fits:
    """Whole fits with default settings."""

    params = ("noisy_gd", "preconditioned_gd", "dp_agd", "dp_sgd", "objective_perturbation")
    param_names = ("algorithm",)

    def setup(self, algorithm):
        self.objective = objective("small", "float32")
        self.fit = getattr(algorithms, algorithm)

    def time_fit(self, algorithm):
        self.fit(self.objective, 1.0, 1e-6)

    def peakmem_fit(self, algorithm):
        self.fit(self.objective, 1.0, 1e-6)


class Models:
    """An estimator, which is how most people use the package."""

    def setup(self):
        self.X, self.y, *_ = problem("small", "float32")
        self.model = LogisticRegression(1.0, 1e-6, row_norm=2.0, classes=[-1, 1]).fit(self.X, self.y)

    def time_fit(self):
        self.model.fit(self.X, self.y)

    def time_predict(self):
        self.model.predict(self.X)

    def peakmem_predict(self):
        self.model.predict(self.X)


class Charges:
    """Charges to a ledger on disk."""

    def setup(self):
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = open_ledger(f"sqlite:///{self.folder.name}/budget.db", "data", 1e6, 1e-1)

    def teardown(self):
        self.folder.cleanup()

    def time_charge(self):
        self.ledger.charge(epsilon=1e-6, delta=1e-9)
