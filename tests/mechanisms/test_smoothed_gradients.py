"""Smoothed gradients of PyTorch models against the package's own solver, and where Opacus adds its noise."""

import copy
import sys

import numpy as np
import pytest

from dperm.accounting import smoothing_beta
from dperm.mechanisms import laplacian_smoothing, smooth_gradients

SHAPES = [(8, 1, 3, 3), (8,), (5, 72), (1,), (2,), (7, 11)]


def test_without_torch_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'dperm\[torch\]'"):
        smooth_gradients(None, 1.0)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def parameters_with_gradients(torch, dtype):
    rng = np.random.default_rng(0)
    parameters = [torch.nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in SHAPES]
    for parameter in parameters:
        parameter.grad = torch.from_numpy(rng.normal(size=parameter.shape)).to(dtype)
    parameters[0].grad = parameters[0].grad.to(memory_format=torch.channels_last)  # not in C order
    return parameters


def flat(tensors):
    return [each.detach().double().numpy().flatten() for each in tensors]  # copies


@pytest.mark.parametrize("whole_model", [False, True])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-14), ("float32", 2e-6), ("bfloat16", 2e-2), ("float16", 2e-3)]
)
def test_a_step_is_that_of_the_smoothed_gradient(torch, dtype, tolerance, whole_model):
    for sigma in (0.0, 0.5, 3.0, 1e4):
        parameters = parameters_with_gradients(torch, getattr(torch, dtype))
        optimizer = torch.optim.SGD([{"params": parameters[:2]}, {"params": parameters[2:]}], lr=1.0)
        rings = [np.concatenate(flat(p.grad for p in parameters))] if whole_model else None
        rings = rings or flat(p.grad for p in parameters)
        smooth_gradients(optimizer, sigma, whole_model=whole_model)
        optimizer.step()
        expected = np.concatenate([laplacian_smoothing(ring, sigma) for ring in rings])
        np.testing.assert_allclose(-np.concatenate(flat(parameters)), expected, atol=tolerance)


def test_parameters_without_gradient_and_the_end_of_smoothing(torch):
    parameters = parameters_with_gradients(torch, torch.float32)
    parameters[2].grad = None
    optimizer = torch.optim.Adam(parameters)
    handle = smooth_gradients(optimizer, 1.0, whole_model=True)
    optimizer.step()
    handle.remove()
    before = copy.deepcopy(parameters[0].grad)
    optimizer.step()
    assert torch.equal(parameters[0].grad, before)
    optimizer.zero_grad()
    smooth_gradients(optimizer, 1.0, whole_model=True)
    optimizer.step()  # nothing to smooth


@pytest.mark.parametrize("sigma", [-1.0, np.inf, np.nan])
def test_bad_arguments(torch, sigma):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))], lr=1.0)
    with pytest.raises(ValueError, match="sigma must be finite"):
        smooth_gradients(optimizer, sigma)
    smooth_gradients(optimizer, 1.0)
    with pytest.raises(ValueError, match="without a closure"):
        optimizer.step(lambda: None)


def private_step(torch, opacus, when):
    """The change of the weights in one step of Opacus with the same noise, and its epsilon."""
    torch.manual_seed(0)
    X, y = torch.randn(64, 200), torch.randint(0, 50, (64,))
    model = torch.nn.Linear(200, 50)
    before = flat(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    if when == "before":
        smooth_gradients(optimizer, 2.0)
    engine = opacus.PrivacyEngine(accountant="rdp")
    model, optimizer, _ = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=64),
        noise_multiplier=5.0,
        max_grad_norm=1.0,
        noise_generator=torch.Generator().manual_seed(1),
    )
    if when == "after":
        smooth_gradients(optimizer, 2.0)
    torch.nn.functional.cross_entropy(model(X), y).backward()
    optimizer.step()
    moved = [old - new for old, new in zip(before, flat(model.parameters()), strict=True)]
    return moved, engine.get_epsilon(1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("when", ["before", "after"])
def test_with_opacus_the_noise_is_smoothed_and_the_accountant_counts_as_before(torch, when):
    opacus = pytest.importorskip("opacus")
    plain, epsilon = private_step(torch, opacus, "never")
    smoothed, same = private_step(torch, opacus, when)
    for raw, found in zip(plain, smoothed, strict=True):
        np.testing.assert_allclose(found, laplacian_smoothing(raw, 2.0), atol=1e-6)
    assert epsilon == same > 0.0
    # Nearly all of the change is noise, of which smoothing leaves the share given by the closed form.
    assert np.mean(smoothed[0] ** 2) / np.mean(plain[0] ** 2) == pytest.approx(
        smoothing_beta(2.0, plain[0].size), rel=0.15
    )
