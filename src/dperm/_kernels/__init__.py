"""Compiled kernels. The environment variable DPERM_INSTRUCTION_SET forces an instruction set."""

import os

from dperm._kernels import row_kernels, samplers

_forced = os.environ.get("DPERM_INSTRUCTION_SET")
if _forced:
    try:
        row_kernels.use_instruction_set(_forced)
        samplers.use_instruction_set(_forced)
    except ValueError as error:
        raise ImportError(f"DPERM_INSTRUCTION_SET: {error}") from None
