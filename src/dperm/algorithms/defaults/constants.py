"""Every constant of the default settings, by the rule that uses it.

They were found on public and generated data sets. No privacy guarantee depends on any of them. "Signal" is
``n mu / sqrt(dimension)`` unless a comment says otherwise.
"""


class Usual:
    """The one rule of the published algorithms: `dperm.algorithms.rules`."""

    FULL_SIGNAL, LEAST_CLIP = 2000.0, 0.1  # signal without clipping; and the least, in longest gradients
    RIDGE_COST = 0.003  # harmless cost of noise under a ridge term, in losses at the weights 0
    # Cost of noise that a step size may lead to, in losses at the weights 0; a mean of iterates has less.
    NOISE, NOISE_OF_AVERAGE = 0.1, 0.25
    NOISELESS_CLIP = 20.0  # of an unbounded slope, in gradients at the weights 0
    STEPS_PER_SIGNAL, STEPS = 2.0, (50, 500)
    STEP, MOMENTUM, TAIL = 2.0, 0.95, 0.5  # in inverse curvatures; stable below 2 (1 + momentum)
    LOG_ODDS = 4.0  # prediction that labels call for
    BEND = 0.25  # of predictions over which a kink counts as bent
    # Of the optimum in a theorem's step size, over row_norm; for real targets in target bounds.
    DISTANCE, DISTANCE_OF_TARGETS = 100.0, 5.0
    BATCH, PASSES = 0.5, 50  # times sqrt(n); of descents on small batches
    MOST_SECRET_STEPS = 2000  # of `output_perturbation_gd`
    SAMPLING, LEAST_BATCH = 10.0, 512  # squared privacy noise over squared sampling error of larger batches
    ADAM, ADAM_DECAY = 0.3, 0.9  # step over row_norm; decay


class Momentum:
    """Adaptive momentum."""

    HIGHEST = 0.95
    LONGEST = 8.0  # factor on the effective step
    MEMORY = 0.25  # fraction of the run over which gradients are averaged
    SETTLED = 8.0  # gradients count after this fraction of the run: an eighth
    NOISE, DEVIATIONS = 0.7, 2.5  # the mean gradient counts above these multiples of its noise


class DPAGD:
    """`dp_agd`."""

    SELECTION, GROWTH, MOMENTUM, SHRINK, LEAST_SPLITS = 0.1, 0.02, 0.9, 0.9, 10
    LOSS_CLIP = 2.0  # in losses at the weights 0
    NOISELESS, NOISELESS_STEP = 16.0, 4.0  # without noise: longer loss clips; first step times row_norm
    PUBLISHED_CLIP, PUBLISHED_GROWTH = 3.0, 0.1  # of the paper's experiments
    ZCDP = 0.2  # fraction of the budget for selections from which zCDP is better than GDP


class PrivGene:
    """`privgene`."""

    PER_ROOT_OF_SIGNAL, GENERATIONS = 4.0, (10, 500)
    LAST_STRIDE = 0.05  # over the first


class ObjectivePerturbation:
    """`objective_perturbation`."""

    OUTPUT = 1e-3  # of epsilon and delta, for the noise on the output
    RIDGE = (
        3.0  # least regularisation, in beta / epsilon: less would cost more in noise than it saves in bias
    )
    RIDGE_OF_LOGISTIC = 4.0  # from here on the logistic loss costs what the Gaussian mechanism does


class OutputSGD:
    """`dp_sgd_output`."""

    PASSES = 4
    PHASE_STEP = 0.25  # ratio of step sizes from phase to phase
    ROUGH = 2.0 / 3.0  # steps on shared records expand distances by this times the root of their number


class Newton:
    """`noisy_newton`."""

    LEVERAGE, ROBUST_LEVERAGE, MOST_LEVERAGE = 1.5, 3.0, 100.0
    STEPS, GROWTH = 6, 1.5  # rough Newton steps, and factor from one's part of the budget to the next one's
    ACCURACY, MORE_STEPS = 8000.0, 6  # one more for each doubling of n mu / d beyond that
    MOST_THRESHOLDS = 2.0**20  # of Huber's loss, in the first step's
    BY_CHANCE = 1e-3  # probability that noise alone is taken for more
    MANY_ROWS = 0.03  # down-weighted records that are warned of
    # With robust standard errors this over sqrt(leverage d n): so many move a weight by half a standard error
    # if their residuals average a quarter of the root mean square.
    MANY_LENGTHS = 4.0
    SETTLED = 1.0  # standard errors that the last step may move a weight, beyond what noise explains
    # Inverse of the noise, relative to the largest Hessian, at which most intervals of balanced records are
    # given; logistic Hessians are smaller than the largest.
    MOST_LOST, MOST_LOST_OF_LABELS = 3.0, 3.5
    # Fractions of the budget, up to a factor.
    COLUMNS, NORMS, GRAM, TABLE, PILOT, HESSIAN = 0.01, 0.01, 0.12, 0.02, 0.15, 0.12
    FIRST, SECOND, RESIDUALS, SCALE_OF_RESIDUALS, SQUARES, EFFECTS = 0.15, 0.43, 0.01, 0.02, 0.15, 0.05
    LONG_ROWS, LONG_DEVIATIONS = (
        0.05,
        3.0,
    )  # fraction of the rows above the typical norm; noise to stand out from
    RARE_DEVIATIONS = 4.5  # the same for axes of rare categories
    PRECISION, LEAST_PRECISION = 1e-5, 1e-9  # eigenvalues below are unknown even without noise
    # Of unknown directions, in spectral norms of the noise: one rules out only intervals with a quarter of
    # their variance in it, as eigenvectors of noisy matrices always mix a little.
    LEAST_CURVATURE = 0.2
    CURVATURE_VARIANCE = 1.0 / 64.0  # bound on that of q (1 - q), which lies between 0 and 1/4
    UNCERTAIN = 1.5  # a standard error that could be this many times larger is reported as that large
    MOST_UNCERTAIN = 2.0  # an interval that could be this many times wider is refused


class NonPrivate:
    """`nonprivate`."""

    BIASES = tuple(10.0**-k for k in range(1, 9))  # of successive smoothed losses, in losses at 0
    PRECISION = 1e-16  # of L-BFGS
    RAMP = 8.0  # the bias of a ramp of curvature c is jump^2 / (8 c)


class Profile:
    """What `whitened_gd` learns before it starts."""

    FALSE_ALARM = 1e-4  # of all comparisons of a release with its noise
    OCTAVES, OCTAVES_ABOVE = (
        32,
        1,
    )  # of a histogram of magnitudes; between the first that is seen and the bound
    UNSEEN, UNSEEN_COLUMN = 0.5, 0.8  # share of entries that may be above the first octave that is seen
    CENTRED = 2.0  # a mean is subtracted if it is this many standard deviations from 0
    LENGTHS = 40  # factors of sqrt(2) in a histogram of lengths
    LONG_ROWS = 0.02  # share of the rows that the learned length shortens
    TARGET_BINS, ZOOMS = 16, 4  # of a histogram of targets; how many
    MISSED = 0.01  # share of targets outside of the range that a zoom may miss
    LEAST_WEIGHT = 0.1  # of a class, and the inverse of the largest
    KINK = 0.5  # curvature in place of a kink, in slopes at 0
    FLATTEST = 0.1  # curvature for rare labels or many classes, relative to the largest


class WhitenedGD:
    """`whitened_gd`. Shares are of mu^2; signal is ``n mu / sqrt(weights)``."""

    LEAST_SIGNAL = 15.0  # from which coordinates are learned
    SCALES, MEANS, LENGTHS, SQUARES, GRAM = 0.08, 0.08, 0.02, 0.05, 0.05
    LABELS, MOST_LABELS, LABEL_SIGNAL = 0.02, 0.15, 10.0  # (10 / (n mu))^2 in this range
    TARGETS, MOST_TARGETS, TARGET_SIGNAL = 0.05, 0.3, 60.0
    LEAST_SQUARE = 2.0  # second moment of a column, in standard deviations of its noise
    EDGE = 2.0  # of the noise's eigenvalues, in its standard deviation times sqrt(columns)
    CLIP, CLIP_SIGNAL = (0.6, 2.0), 100.0  # in typical gradients, with the root of the signal
    STEPS, STEPS_PER_SIGNAL = (60, 300), 0.07
    STEP, STABLE = 0.7, 2.6  # in inverse curvatures; with the largest second moment that may be left
    RIDGE = 0.5  # over the size of the weights that is assumed
    TAIL = 0.8  # of the iterates is averaged
    NOISELESS_MOMENTUM = 0.9
    TURNING = 5.0  # gradients that turn round by this many standard deviations halve the step
    NOISE = 1.0  # of the iterates in a typical prediction, over what is to be learned
    WORSE = 3.0  # rise of the tangent, in standard deviations, that proves a result worse than the start
