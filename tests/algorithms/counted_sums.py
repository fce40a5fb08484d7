"""Count the noisy batch sums of a run."""

from dperm.mechanisms.release import Releaser


def counted_sums(monkeypatch):
    """Two lists that fill up: releasers that start a series of noisy sums, and weights of each sum."""
    releasers, weights = [], []
    original = Releaser.noisy_batch_sums

    def counted(self, *args, **kwargs):
        releasers.append(self)
        noisy_sum = original(self, *args, **kwargs)
        return lambda w: weights.append(w) or noisy_sum(w)

    monkeypatch.setattr(Releaser, "noisy_batch_sums", counted)
    return releasers, weights
