"""Count the noisy sums over batches that a run takes."""

from dperm.mechanisms.release import Releaser


def counted_sums(monkeypatch):
    """Lists of the releasers that open a run of noisy sums, and of the weights that sums are taken at."""
    releasers, weights = [], []
    original = Releaser.noisy_batch_sums

    def counted(self, *args, **kwargs):
        releasers.append(self)
        noisy_sum = original(self, *args, **kwargs)
        return lambda w: weights.append(w) or noisy_sum(w)

    monkeypatch.setattr(Releaser, "noisy_batch_sums", counted)
    return releasers, weights
