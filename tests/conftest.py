import os

# Before OpenMP and BLAS are loaded: threads that spin while they wait keep the cores from the other workers.
os.environ["OMP_WAIT_POLICY"] = "passive"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pytest
from hypothesis import settings

from dperm._kernels import row_kernels

# On a busy machine, the time that an example takes is meaningless.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")


@pytest.fixture
def keep_instruction_set():
    """Restore the instruction set after a test that switches it."""
    before = row_kernels.instruction_set()
    yield
    row_kernels.use_instruction_set(before)


@pytest.fixture(params=row_kernels.instruction_sets())
def instruction_set(request, keep_instruction_set):
    """Run the test once per instruction set of this machine."""
    row_kernels.use_instruction_set(request.param)
    return request.param


@pytest.fixture(scope="module")
def cluster():
    """A client of a cluster of two processes."""
    from reference import clusters

    with clusters.cluster_of_processes() as client:
        yield client


@pytest.fixture
def client(cluster):
    """A client of a cluster of two workers, both of them alive."""
    from reference import clusters

    clusters.wait_for_workers(cluster)
    return cluster
