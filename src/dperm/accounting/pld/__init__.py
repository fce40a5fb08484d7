"""Composition of privacy loss distributions, with proved bounds on all rounding errors.

`profiles` has the privacy profiles of one step, `discrete_loss` turns a profile into a loss on a grid,
`composition` composes it, `refinement` chooses the grid. Every grid gives a valid upper bound, finer grids
give smaller ones. This is the proof that they are upper bounds; u = 2^-53.

**1. Domination.** A pair of measures (P, Q) dominates another if its profile ``H(g) = sup_S P(S) - g Q(S)``
is at least as large for all g >= 0. Composition preserves domination, also for measures whose totals are not
1 and for pairs chosen from earlier outputs: with ``r = q_2/p_2``, ``H(g) of the product = int p_2 H_1(g
r_2)`` grows with H_1 pointwise.

**2. The grid.** "Connect the dots" (Doroshenko et al. 2022): masses on a grid whose profile is linear in
``e^epsilon`` between grid points. Profiles are convex in ``e^epsilon``, so it dominates if it does so at
every grid point and below the lowest one, where total mass 1 is enough. Each of these is ensured by a
*relative* increase:

* The profile is raised by its stated relative error and by ``8 points u`` for the masses: each is a sum of
  two differences, each with a relative error below 4u, and
  ``sum_(j>k) (j-k) (h_(j-1) - h_j) <= points * h_k``. Masses below 0 become 0, which only raises the
  profile.
* Losses below 0 are the losses above 0 of the reversed pair, with masses times ``e^loss``. With ``p`` the
  excess of P's total over 1, the profile at ``g = e^-x`` is ``1 + p - g (1 + p + G - H) + g h_reversed(x)``,
  where H and G are the profiles of the grid and of its reverse at 0: at least ``1 - g + g h_reversed(x)``
  as soon as ``p >= 0`` and ``H >= G``.

An increase by a factor 1 + r raises the mean loss of a step by about r standard deviations: harmless, where
an absolute error would be multiplied by the number of steps.

**3. Tilting.** With ``w_j = m_j e^(tilt x_j - log_scale)`` the composed mass at loss y is
``e^(T log_scale - tilt y)`` times the T-th convolution power of w at y. Near epsilon the tilted power is of
order 1, so that errors of the transforms are relative to delta, not to 1, and as good for a delta of 1e-30
as for 1e-3. The bound on delta is the sum of

* the computed value, ``e^(T log_scale) sum_y e^(-tilt y) (1 - e^(epsilon - y))_+ p_y``. Circular
  convolution only adds mass to a cell, and masses below 0 become 0;
* a bound on its error. A transform of ``N = 2^L`` cells has L levels of butterflies; each adds two numbers,
  one of them times a rounded root of unity, with a relative error below 7u (complex product: sqrt(5), Brent,
  Percival and Zimmermann 2007; root and sum: 1 to 2 each; radix 4 and 8 merge two and three levels and round
  less). Every term of every output passes L of them, so the transform of w has an error of at most ``k = 10 L
  u sum(w)`` at *each* frequency, and a relative error of at most ``10 L u`` in the l2 norm. The T-th power of
  a number with error k has an error of at most ``T k (|.| + k)^(T-1)``; logarithm and angle, each accurate to
  a few units in the last place, add 24u to k. By Parseval and Cauchy-Schwarz the error of the sum above is at
  most the l2 norm of its weights times that of these errors;
* the mass beyond the last cell (Chernoff) and the infinite loss.

Together the errors are about ``3 T 2^-44`` of delta: 1e-7 for a million steps, 1e-3 for ten billion.

**4. Low frequencies.** After many steps only these remain, and direct sums compute them if the others are
proved to be negligible: with ``a_d = sum_j w_j w_(j+d)`` over any part of w and ``1 - cos x >= 2 x^2/pi^2``
for ``|x| <= pi``, the squared modulus at angle t is at most ``sum(w)^2 - (4 t^2/pi^2) sum_(d <= pi/t) d^2
a_d``. The sum over y is then a geometric series over all y: the period N need not be as long as any window.
"""
