"""How this copy of dperm was built, and what it uses on this machine."""

from dperm._kernels import row_kernels
from dperm._kernels.build_record import BUILD_RECORD
from dperm._kernels.threads import machine_threads


def build_info() -> dict[str, object]:
    """Build record and run-time choices.

    Returns
    -------
    dict
        ``version, compiler, cython, build_type, host`` from the build; ``openmp`` (bool);
        ``instruction_set`` in use, ``instruction_sets`` that this machine can run (slowest first; the
        environment variable ``DPERM_INSTRUCTION_SET`` forces one), and ``threads``, the number of threads of
        a large pass with ``n_threads=None``: limited by CPU affinity, the container's CPU quota,
        OMP_NUM_THREADS and threadpoolctl; 1 in a forked child.

    Examples
    --------
    >>> info = build_info()
    >>> info["instruction_set"] in info["instruction_sets"], info["threads"] >= 1
    (True, True)
    """
    return {
        **BUILD_RECORD,
        "openmp": row_kernels.threads_compiled_in(),
        "instruction_set": row_kernels.instruction_set(),
        "instruction_sets": row_kernels.instruction_sets(),
        "threads": machine_threads(),
    }
