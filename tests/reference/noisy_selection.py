"""Geometric and discrete Laplace noise, permute-and-flip and report-noisy-min: twins and exact distributions.

Twins read bits in the order of the compiled samplers, so that both agree on any stream.
"""

import itertools
import math

from reference.exponential_mechanism import bernoulli_exp

LIMIT = 1 << 62


def geometric(reader, numerator, shift):
    m = max(shift - numerator.bit_length(), 0)
    while True:
        u = reader.below(1 << m)
        if bernoulli_exp(reader, numerator, shift, u):
            break
    blocks = 0
    while bernoulli_exp(reader, numerator, shift, 1 << m):
        blocks += 1
    value = u + (blocks << m)
    return LIMIT if blocks >= LIMIT >> m else value


def discrete_laplace(reader, numerator, shift):
    while True:
        value, negative = geometric(reader, numerator, shift), reader.take(1)
        if value or not negative:
            return -value if negative else value


def permute_and_flip(reader, scores, numerator, shift):
    order = list(range(len(scores)))
    for i in range(len(scores)):
        step = i + reader.below(len(scores) - i)
        order[i], order[step] = order[step], order[i]
        j = order[i]
        if bernoulli_exp(reader, numerator, shift, scores[j] - min(scores)):
            return j
    raise AssertionError("the best candidate is always accepted")


def report_noisy_min(reader, scores, numerator, shift, two_sided):
    draw = discrete_laplace if two_sided else geometric
    noisy = [score - draw(reader, numerator, shift) for score in scores]
    return noisy.index(min(noisy))


def permute_and_flip_probabilities(scores, rate):
    """P(j): the first in random order to be accepted (McKenna and Sheldon 2020, Lemma 1)."""
    accept = [math.exp(-rate * (score - min(scores))) for score in scores]
    result = []
    for j, p in enumerate(accept):
        others = accept[:j] + accept[j + 1 :]
        total = 0.0
        for size in range(len(others) + 1):
            products = sum(math.prod(subset) for subset in itertools.combinations(others, size))
            total += (-1) ** size * products / (size + 1)
        result.append(p * total)
    return result


def noisy_min_probabilities(scores, rate, two_sided):
    """P(j is the first with the smallest score - Y), where P(Y = k) ~ exp(-rate |k|)."""
    reach = math.ceil(40 / rate)
    values = range(-reach if two_sided else 0, reach + 1)
    weights = {k: math.exp(-rate * abs(k)) for k in values}
    total = sum(weights.values())

    def tail(k):  # P(Y >= k)
        p = math.exp(-rate)
        if not two_sided:
            return p ** max(k, 0)
        return p**k / (1 + p) if k > 0 else 1 - p ** (1 - k) / (1 + p)

    result = []
    for j, score in enumerate(scores):
        probability = 0.0
        for k in values:
            best = score - k
            others = 1.0
            for i, other in enumerate(scores):
                if i != j:  # other - Y >= best, or > best for i < j
                    others *= 1 - tail(other - best + (1 if i > j else 0))
            probability += weights[k] / total * others
        result.append(probability)
    return result
