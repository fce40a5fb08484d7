"""Laplacian smoothing of the noisy gradients of a deep model, for use with Opacus."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.utils.hooks import RemovableHandle


def smooth_gradients(
    optimizer: torch.optim.Optimizer, sigma: float, *, whole_model: bool = False
) -> RemovableHandle:
    """Smooth the gradients of a PyTorch optimizer before each of its steps: DP-LSSGD for deep models.

    Needs PyTorch: ``pip install 'dperm[torch]'`` (with Opacus, which adds the noise).

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Opacus's optimizer, or the one that is passed to its ``make_private``, before or after that; of any
        kind.
    sigma : float
        As in :func:`laplacian_smoothing`, nonnegative and finite.
    whole_model : bool
        Whether the concatenation of all parameters is one ring, as in Algorithm 1 of the paper. By default
        each tensor is a ring of its own, as in the authors' program.

    Returns
    -------
    torch.utils.hooks.RemovableHandle
        Its method ``remove`` ends the smoothing.

    Notes
    -----
    Opacus clips the gradients of the records, sums them, adds noise, and then calls the step of the optimizer
    that it was given. Smoothing happens in that call. So it is post-processing of noisy gradients, and the
    guarantee of Opacus's accountant stays the same, neither better nor worse, as smoothing is invertible.
    Without Opacus there is no noise and no guarantee.

    It uses a real Fourier transform on the device of the parameters, in their precision but at least in
    single precision.

    Examples
    --------
    >>> import torch
    >>> weights = torch.nn.Parameter(torch.zeros(4))
    >>> optimizer = torch.optim.SGD([weights], lr=1.0)
    >>> handle = smooth_gradients(optimizer, sigma=2.0)
    >>> weights.grad = torch.tensor([-1.0, 0.0, 0.0, 0.0])
    >>> optimizer.step()
    >>> [round(float(weight), 3) for weight in weights]
    [0.378, 0.222, 0.178, 0.222]
    """
    try:
        import torch
    except ImportError as error:
        message = "smooth_gradients needs PyTorch: pip install 'dperm[torch]'"
        raise ImportError(message, name="torch") from error

    if not 0.0 <= sigma < math.inf:
        raise ValueError(f"sigma must be finite and at least 0, got {sigma!r}")
    while hasattr(optimizer, "original_optimizer"):  # Opacus adds noise before the step of this one
        optimizer = optimizer.original_optimizer

    @functools.cache
    def eigenvalues(length: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        angles = torch.arange(length // 2 + 1, dtype=torch.float64) * (math.pi / length)
        return (1.0 + 4.0 * sigma * torch.sin(angles) ** 2).to(device, dtype)

    def solved(ring: torch.Tensor) -> torch.Tensor:
        values = ring.to(torch.promote_types(ring.dtype, torch.float32))
        spectrum = torch.fft.rfft(values) / eigenvalues(len(values), values.dtype, values.device)
        smoothed: torch.Tensor = torch.fft.irfft(spectrum, n=len(values))
        return smoothed

    def before_step(optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if kwargs.get("closure") is not None or any(each is not None for each in args[1:]):
            raise ValueError("gradients are smoothed before the step: call step() without a closure")
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        gradients = [each.grad for each in parameters if each.grad is not None]
        rings = [gradients] if whole_model and gradients else [[each] for each in gradients]
        with torch.no_grad():
            for ring in rings:
                smoothed = solved(torch.cat([each.flatten() for each in ring]))
                parts = torch.split(smoothed, [each.numel() for each in ring])
                for gradient, part in zip(ring, parts, strict=True):
                    gradient.copy_(part.view(gradient.shape))

    return optimizer.register_step_pre_hook(before_step)
