"""A convolutional network on MNIST by Opacus with smoothed noisy gradients: test accuracy in per cent."""

import dperm
from dperm.accounting import noise_multiplier
from dperm.mechanisms import smooth_gradients
from papers.framework import Refused
from papers.learning import repeated

DELTA = 1e-5


def measure(
    mode: str,
    *,
    epsilon: float,
    smoothing: float,
    batch: int,
    steps: int,
    step_size: float,
    repetitions: int,
) -> tuple[float, float | None]:
    """Steps and samples are Opacus's, the noise multiplier is our accountant's."""
    try:
        import opacus
        import torch
    except ImportError as error:
        raise Refused(f"no {error.name} here: pip install 'dperm[torch]'") from error
    torch.set_num_threads(1)
    data = dperm.datasets.load("mnist")
    images, digits = torch.from_numpy(data.X.reshape(-1, 1, 28, 28)).float(), torch.from_numpy(data.y).long()
    train = torch.utils.data.TensorDataset(images[:60_000], digits[:60_000])
    noise = noise_multiplier(epsilon, DELTA, batch_size=batch, n_samples=len(train), steps=steps)

    def accuracy(seed: int) -> float:
        torch.manual_seed(seed)
        model = _network(torch.nn)
        optimizer = torch.optim.SGD(model.parameters(), lr=step_size)
        model, optimizer, batches = opacus.PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=torch.utils.data.DataLoader(train, batch_size=batch),
            noise_multiplier=noise,
            max_grad_norm=1.0,
        )
        smooth_gradients(optimizer, smoothing)
        done = 0
        while done < steps:
            for rows, labels in batches:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(rows), labels).backward()
                optimizer.step()
                done += 1
                if done == steps:
                    break
        with torch.no_grad():
            found = torch.cat([model(rows).argmax(1) for rows in images[60_000:].split(1000)])
        return 100.0 * float((found == digits[60_000:]).double().mean())

    return repeated(accuracy, repetitions)


def _network(nn):  # type: ignore[no-untyped-def]
    """That of the authors' program: two convolutions, one linear layer, 14,394 weights."""
    first = [nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.ReLU(), nn.MaxPool2d(2, stride=1)]
    second = [nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.MaxPool2d(2, stride=1)]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(512, 10))
