# Private selection and its discrete noise: a part of samplers.pyx.

cdef dyadic_rate checked_rate(numerator, log2_denominator) except *:
    if not (0 <= numerator <= UINT64_MAX and 0 <= log2_denominator <= 127):
        raise ValueError("rate needs 0 <= numerator < 2^64 and 0 <= log2_denominator <= 127, got "
                         f"numerator={numerator}, log2_denominator={log2_denominator}")
    cdef dyadic_rate rate
    rate.numerator = numerator
    rate.shift = log2_denominator
    return rate


cdef dyadic_rate checked_laplace_rate(numerator, log2_denominator) except *:
    if numerator << 60 < 1 << log2_denominator:
        raise ValueError("rate must be at least 2^-60, got "
                         f"numerator={numerator}, log2_denominator={log2_denominator}")
    return checked_rate(numerator, log2_denominator)


cdef enum selection:
    EXPONENTIAL_MECHANISM
    PERMUTE_AND_FLIP
    NOISY_MIN


cdef size_t choose(RandomBits bits, selection how, scores, dyadic_rate rate, bint two_sided=False) except *:
    """Index of the selected candidate. scores: int64, one-dimensional, not empty."""
    cdef const int64_t[::1] flat = scores
    cdef size_t count = flat.shape[0], chosen = 0
    cdef int status
    if count == 0:
        raise ValueError("scores must hold at least one candidate")
    cdef size_t[::1] order = np.empty(count if how == PERMUTE_AND_FLIP else 1, dtype=np.uintp)
    bits.begin()
    with nogil:
        if how == EXPONENTIAL_MECHANISM:
            status = exponential_mechanism_c(&bits.stream, &flat[0], count, rate, &chosen)
        elif how == PERMUTE_AND_FLIP:
            status = permute_and_flip_c(&bits.stream, &flat[0], count, rate, &order[0], &chosen)
        else:
            status = report_noisy_min_c(&bits.stream, &flat[0], count, rate, two_sided, &chosen)
    bits.end(status)
    return chosen


def exponential_mechanism(RandomBits bits not None, scores, numerator, log2_denominator):
    """Index j, drawn with probability proportional to exp(-rate * scores[j]), exactly.

    scores: int64, one-dimensional, not empty. rate = numerator / 2^log2_denominator,
    0 <= numerator < 2^64, 0 <= log2_denominator <= 127.
    """
    return choose(bits, EXPONENTIAL_MECHANISM, scores, checked_rate(numerator, log2_denominator))


def bernoulli_exp(RandomBits bits not None, numerator, log2_denominator, size):
    """bool array of shape `size`: true with probability exp(-numerator / 2^log2_denominator), exactly.

    0 <= numerator < 2^64, 0 <= log2_denominator <= 127.
    """
    cdef dyadic_rate rate = checked_rate(numerator, log2_denominator)
    out = np.empty(size, dtype=np.uint8)
    cdef uint8_t[::1] flat = out.reshape(-1)
    cdef size_t count = flat.shape[0]
    cdef int status
    bits.begin()
    with nogil:
        status = bernoulli_exp_fill(&bits.stream, rate, &flat[0], count)
    bits.end(status)
    return out.view(np.bool_)


def discrete_laplace(RandomBits bits not None, numerator, log2_denominator, size, bint two_sided=True):
    """int64 array of shape `size`: v with probability proportional to exp(-rate * |v|), exactly.

    rate = numerator / 2^log2_denominator, at least 2^-60, with the bounds of bernoulli_exp. two_sided=False:
    only v >= 0 (geometric). Magnitudes beyond 2^62 are replaced by 2^62.
    """
    cdef dyadic_rate rate = checked_laplace_rate(numerator, log2_denominator)
    out = np.empty(size, dtype=np.int64)
    cdef int64_t[::1] flat = out.reshape(-1)
    cdef size_t count = flat.shape[0]
    cdef int status
    bits.begin()
    with nogil:
        status = discrete_laplace_fill(&bits.stream, rate, two_sided, &flat[0], count)
    bits.end(status)
    return out


def permute_and_flip(RandomBits bits not None, scores, numerator, log2_denominator):
    """Index j: the first in random order that is accepted, with probability exp(-rate * (score - smallest)).

    Arguments as for exponential_mechanism.
    """
    return choose(bits, PERMUTE_AND_FLIP, scores, checked_rate(numerator, log2_denominator))


def report_noisy_min(RandomBits bits not None, scores, numerator, log2_denominator, bint two_sided):
    """Index of the smallest scores[j] - noise, with noise as in discrete_laplace."""
    return choose(bits, NOISY_MIN, scores, checked_laplace_rate(numerator, log2_denominator), two_sided)
