"""How launches of one step overlap: the next kernel's programs are on the device before the last one's are done."""

import triton
import triton.language as tl
from triton.language.extra import cuda


@triton.jit
def await_previous(OVERLAPS: tl.constexpr):
    """Let the next launch begin, and wait until all that was launched before has been written.

    Every kernel calls it before it reads or writes anything; so whoever waits for one has waited for all before it.
    """
    if OVERLAPS:
        cuda.gdc_launch_dependents()
        cuda.gdc_wait()
