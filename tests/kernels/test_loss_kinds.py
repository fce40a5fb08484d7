"""The list of losses in C: Python looks up its names, and a loss without its cases does not compile."""

import shutil

import pytest

from dperm import losses
from dperm._kernels import row_kernels
from reference.c_programs import AS_BUILT, BASELINE, CC, CSRC, run
from reference.losses import EXAMPLES


def test_every_kind_is_the_kernel_of_a_loss():
    used = {loss.kernel[0] for loss in [*EXAMPLES.values(), losses.Softmax(3)]}
    assert used == set(row_kernels.LOSS_KINDS.values())


@pytest.mark.skipif(CC is None, reason="needs the C sources and a compiler")
def test_a_loss_without_its_cases_does_not_compile(tmp_path):
    sources = tmp_path / "csrc"
    shutil.copytree(CSRC, sources)
    listed = sources / "loss" / "loss_kinds.h"
    last = "    DO(LOSS_SIGMOID, WITH) "
    assert listed.read_text().count(last) == 1
    check = [CC, "-std=c11", *AS_BUILT, *BASELINE["baseline"], "-DKERNEL_LEVEL=baseline", "-fsyntax-only"]
    check += ["-Wno-unknown-pragmas", "-Werror=switch", "-I", sources]
    check += [sources / "loss" / "loss_instances.c"]
    assert run(*check).returncode == 0
    listed.write_text(listed.read_text().replace(last, f"    DO(LOSS_NEW, WITH) \\\n{last}"))
    failed = run(*check)
    assert failed.returncode != 0
    assert {"loss_derivatives.h", "loss_values.inc.h"} <= set(failed.stderr.replace("/", ":").split(":"))
