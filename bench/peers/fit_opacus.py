"""Opacus: a linear layer trained by DP-SGD on Poisson samples."""

import torch
from one_fit import run
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

BATCH = 512


def fit(p, epochs, learning_rate):
    X, y = torch.from_numpy(p.unit_rows(p.X)), torch.from_numpy(p.y).float()
    model = torch.nn.Linear(X.shape[1], 1)
    loader = DataLoader(TensorDataset(X, y), batch_size=BATCH)
    model, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9),
        data_loader=loader,
        target_epsilon=p.epsilon,
        target_delta=p.delta,
        epochs=epochs,
        max_grad_norm=1.0,
    )
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(epochs):
        for rows, labels in loader:
            optimizer.zero_grad()
            loss(model(rows).squeeze(1), labels).backward()
            optimizer.step()
    return lambda rows: model(torch.from_numpy(p.unit_rows(rows))).detach().numpy() > 0.0


run(fit)
