"""Every constant of the default settings, by the rule that uses it.

They were found on public and generated data sets: ``docs/decisions/schedule-constants.md``. No privacy
guarantee depends on any of them. "Signal" is ``n mu / sqrt(dimension)`` unless a comment says otherwise; the
effective step is ``step_size / (1 - momentum)``.
"""


class Gradients:
    """Assumed gradients, curvatures and distances, where the loss does not bound them."""

    NOISELESS_CLIP = 1000.0  # of an unbounded slope, in gradients at the weights 0
    EXACT_CLIP = 20.0  # the same for trainings whose result is rounded to a grid
    TARGET_RANGE, ROUGH_TARGET_RANGE = 2.0, 5.0  # in target scales; for smooth losses, for others
    KINK_WIDTH, KINK_WIDTH_OF_TARGETS = 4.0, 0.1  # of the bend that replaces a kink; in target ranges
    LABEL_DISTANCE, TARGET_DISTANCE = 200.0, 4.0  # of the optimum, over row_norm; in target bounds
    DISTANCE_FROM_CONSTANT = 3.0  # the same from a learned constant, in target scales
    SECRET_LABEL_DISTANCE, SECRET_TARGET_DISTANCE = 20.0, 4.0  # for training in secret


class Clip:
    """Clips of descents with noise on every gradient."""

    FULL_SIGNAL, FULL_SIGNAL_OF_TIGHT = (
        4800.0,
        1200.0,
    )  # signal without clipping; for tight row norms of targets
    SOFTMAX_SIGNAL, SOFTMAX_LEAST = 960.0, 0.25
    LEAST = 0.25  # of `typical_clip`
    RIDGE_COST = (
        0.003  # excess risk from noise up to which a ridge term raises the clip, in losses at the start
    )
    RIDGE_COST_SIGNAL = 5.0  # the same from a learned constant, up to this signal
    RIDGE_GRADIENTS = 5.0  # least clip there, in gradients of the ridge term at the start
    SKEWED = 32.0  # largest loss at half the target bound that is assumed, in losses of one target scale
    WORST_CURVATURE = 8.0  # excess risk of noise under a ridge term: d (clip / (n mu))^2 / (8 l2)


class Distance:
    """Distances of descents from a learned constant under a ridge term, and noise that they can afford."""

    FORGETTING_TIMES = 10.0  # times over which the start is forgotten
    SLOWER = 0.3  # than without a ridge term
    NOISE_OF_LABELS, NOISE_OF_TARGETS, NOISE_FROM_CONSTANT = (
        0.0625,
        0.25,
        0.025,
    )  # affordable, in losses at the start
    NOISE_SIGNAL, MOST_NOISE = 125.0, 4.0  # signal from which labels can afford more, and how much more


class Scales:
    """Fractions of the budget for what is learned before a descent. Signal is ``n mu`` here."""

    COLUMNS, LABELS = 0.04, 0.01
    COLUMN_SIGNAL = 12.0  # least ``n mu sqrt(COLUMNS / dimension)``
    LABEL_SIGNAL, TARGET_SIGNAL = 100.0, 10.0  # least signal for the mean label, and for a constant
    NORM_SIGNAL, LEAST_NORM, MOST_NORM = 20.0, 0.02, 0.15  # (20 / signal)^2 in this range
    CONSTANT_SIGNAL, LEAST_CONSTANT, MOST_CONSTANT = 60.0, 0.01, 0.2  # (60 / signal)^2 in this range


class Columns:
    """Column scales of descents that do not whiten."""

    LARGEST = 4.0  # factor, relative to the one with which a column of zeros is as steep as the median one
    RIDGE_STABLE = 1.5  # step size times the ridge term, of 2 (1 + momentum)


class Norms:
    """The bound on row norms from a noisy histogram."""

    BINS = 16  # each a factor of sqrt(2)
    LONG_ROWS = 0.02  # fraction of the rows that are longer than the bound
    SHORTENED = 0.84  # factor of the bound where second moments are released
    DEVIATIONS = 4.0  # of the noise by which a count must stand out
    LEAST = 2.0**-9.5  # bound that can be found, in units of the public one
    INTERCEPT_BOUND = 0.25  # least square of a bound without the intercept, in that with it


class Labels:
    """The mean label, and class weights from it."""

    LARGEST_MEAN = 0.99
    LEAST_WEIGHT, LARGEST_WEIGHT = 0.1, 10.0  # of a class: the noisy frequency of a rare one is unreliable


class Constant:
    """The best constant prediction of real targets."""

    STEPS = 8
    PRECISION = 3.0  # of a histogram, in units of that of a sum of slopes
    BINS = 20  # of distances, each a factor of sqrt(2)
    FAR = 0.02  # fraction of the targets that are farther away than one target scale
    DEVIATIONS = 4.0  # of the noise by which a count must stand out
    FIT_ERRORS = 4.0  # squared errors of a normal distribution that fits, in variances of the noise
    CANDIDATES = 0.25  # for the target scale are this power of 2 apart


class Average:
    """Averages of iterates."""

    BLOCKS = 5  # of the last iterates, and of those before them
    # Squared distance of a settled block, in those of consecutive blocks: 0.6 by noise alone, 9 in drift.
    SETTLED = 3.0


class Momentum:
    """Adaptive momentum."""

    HIGHEST = 0.95
    LONGEST = 8.0  # factor on the effective step
    MEMORY = 0.25  # fraction of the run over which gradients are averaged
    SETTLED = 8.0  # gradients count after this fraction of the run: an eighth
    NOISE, DEVIATIONS = 0.7, 2.5  # the mean gradient counts above these multiples of its noise


class NoisyGD:
    """`noisy_gd`."""

    STEPS, MOST_SIMPLE_STEPS, STEPS_BEYOND = 2.0, 500.0, 0.05  # per unit of signal; cap; per unit beyond it
    LEAST_STEPS, MOST_STEPS = 50.0, 1000.0
    LEAST_CLIP = 0.02
    TRAVEL, TRAVEL_OFFSET = 140.0, 15.0  # effective step: TRAVEL (signal + TRAVEL_OFFSET) / steps / curvature
    LONGEST = 160.0  # effective step, in inverse curvatures
    LABEL_SIGNAL, LABEL_POWER, TARGET_SIGNAL = 8.0, 1.5, 20.0  # signal below which it is shorter
    TIGHT = 0.3  # factor for tight row norms of targets: their weights need not grow as margins do
    LABEL_KINK = (
        0.3  # factor for labels and kinks: a third to half of the excess, at less than a point of accuracy
    )
    CONSTANT_KINK = 0.3  # factor from a learned constant, for kinks
    CONSTANT_UNBOUNDED, CONSTANT_BOUNDED, CONSTANT_SIGNAL = 0.1, 0.3, 400.0  # slopes; signal per factor of 1
    RIDGE_SIGNAL, RIDGE_FROM_CONSTANT = 40.0, 0.3  # under a ridge term, from a learned constant
    FORGETTING_TIMES = 20.0  # of the 1 / (l2 effective step) steps in which the start is forgotten, at a kink
    STABLE, STEP = 3.6, 0.1  # step size times curvature, of 4; and relative to the effective step


class Softmax:
    """`noisy_gd` with the softmax loss."""

    STEPS, LEAST_STEPS, MOST_STEPS = 14.0, 30, 1000  # per root of the signal
    LEAST, PER_SIGNAL, LONGEST = 100.0, 0.5, 160.0  # effective step, in inverse curvatures
    TRAVEL, CLASS_POWER, COLUMN_POWER = 4.1, 0.75, 0.25  # for tight row norms, times n mu
    FULL_SIGNAL, POWER = 8.0, 1.5
    STABLE = 3.6


class Minibatch:
    """`dp_sgd`, `dp_lssgd` and `dp_lsadam`."""

    SAMPLING = 10.0  # squared privacy noise over squared sampling error
    LARGEST_MU = 1e3
    LEAST_BATCH = 512
    SOFTMAX_PASSES = 15  # 3 points more accuracy on MNIST at epsilon = 0.1 with smoothing, 1 without
    SMOOTHED = 3.0  # factor on the effective step of smoothed softmax gradients, which have less noise
    ADAM, ADAM_FROM_CONSTANT, ADAM_DECAY = 0.3, 0.04, 0.9  # step over row_norm; in target scales; decay


class DPAGD:
    """`dp_agd`."""

    LEAST_SPLITS, MOST_SIMPLE_SPLITS, SPLITS_BEYOND, MOST_SPLITS = 40.0, 400.0, 0.25, 1000.0
    SELECTION, GROWTH, MOMENTUM, SHRINK = 0.1, 0.02, 0.9, 0.9
    LEAST_CLIP, LOSS_CLIP = 0.05, 1.5
    STEP, STEP_SIGNAL, LONGEST_STEP = 4.0, 500.0, 4.0  # times row_norm; longer for labels with more signal
    FROM_CONSTANT, CONSTANT_SIGNAL = 0.3, 200.0  # factor on steps from a learned constant
    CONSTANT_MOMENTUM, CONSTANT_MOMENTUM_SIGNAL = 0.5, 800.0
    NOISELESS_STEP, NOISELESS_LOSS_CLIP = 4.0, 16.0
    PUBLISHED_CLIP, PUBLISHED_GROWTH = 3.0, 0.1  # of the paper's experiments
    ZCDP = 0.2  # fraction of the budget for selections from which zCDP is better than GDP


class PrivGene:
    """`privgene`."""

    EXACT_LOSSES, EXACT_GENERATIONS, MOST_EXACT, LAST_EXACT_STRIDE = 1e8, 500, 2000, 1e-3  # without noise
    GENERATIONS, FEW_WEIGHTS, PURE_POWER = 4.0, 15.0, 0.8  # times sqrt(n sqrt(rho))
    LEAST_GENERATIONS, MOST_GENERATIONS = 10.0, 500.0
    LAST_OF_LABELS, LAST_OF_TARGETS = 0.06, 0.02  # last stride over the first
    PURE_SIGNAL = 4.0
    LABEL_STRIDE, TARGET_STRIDE, LEAST_TARGET_STRIDE = 4.0, 0.8, 2.0  # times row_norm; in target bounds
    ENTRY_BOUND, UNBIASED_SIGNAL = (
        0.5,
        2000.0,
    )  # clipped changes of asymmetric losses and labels move the optimum
    INTERCEPT_STRIDE = 1.3  # relative to the entry bound: longer ones would be clipped in most records
    KINK_STRIDE = 1.5  # strides beyond are past the kink
    RIDGE_STRIDE = 2.5


class SecretClip:
    """Clips of output and objective perturbation."""

    LEAST, SIGNAL, POWER = 0.2, 20_000.0, 0.25  # (signal / 20,000)^(1/4) of the longest gradient
    HARMLESS, UNDER_RIDGE = 0.00125, 0.3  # loss that noise may cost under a ridge term; and the clip then


class OutputGD:
    """`output_perturbation_gd`."""

    STABLE, STEP_RATIO, SHORTER_STEPS, LONGER_RUNS = 1.8, 1.1, 8, 81  # candidates for steps and step size
    MOST_STEPS, EXACT_GRADIENTS, MOST_EXACT_STEPS = 2000, 2e7, 10_000


class ObjectivePerturbation:
    """`objective_perturbation`."""

    OUTPUT = 1e-3  # of epsilon and delta, for the noise on the output
    RIDGE = (
        3.0  # least regularisation, in beta / epsilon: less would cost more in noise than it saves in bias
    )
    RIDGE_OF_LOGISTIC = 4.0  # from here on the logistic loss costs what the Gaussian mechanism does


class OutputSGD:
    """`dp_sgd_output`."""

    MOST_PASSES, GAIN = 20, 0.21
    NOISE, NOISE_OF_RESIDUALS = 0.5, 0.075  # that a fit can afford, in losses at 0; residuals grow faster
    NOISE_OF_DECREASING, NOISE_OF_LONGER_CLIPS = (
        0.05,
        0.003,
    )  # the same for decreasing steps, and for their clip
    EXACT_GRADIENTS, MOST_EXACT_PASSES = 4e6, 2000  # without noise
    EXACT_DISTANCE = 20.0  # of the optimum, times row_norm: the further a run may go, the coarser its grid
    RAMP = 8.0  # a ramp of curvature c adds jump^2 / (8 c)
    PHASE_STEP = 0.25  # ratio of step sizes from phase to phase
    ROUGH = 2.0 / 3.0  # steps on shared records expand distances by this times the root of their number


class GradientSGD:
    """`dp_sgd_gradient`."""

    PASSES, EXACT_GRADIENTS, EXACT_BATCH = 50, 2e7, 16
    NOISY_DISTANCE = 30.0  # that noisy steps on labels are to travel, times row_norm
    MOST_STEPS = 100_000
    SPREAD_OF_GRADIENTS = 0.25  # between records, in longest gradients


class RandomRounds:
    """`rrpsgd`."""

    PASSES, PASSES_BY_RECORD = 80, 20  # single records have noise that takes longer
    BATCH = 0.5  # times sqrt(n)
    CLIP = 0.6  # in typical clips: the last iterate has the whole noise of a step
    DISTANCE, DISTANCE_OF_TARGETS = (
        0.15,
        0.5,
    )  # in typical distances, for labels or a ridge term, and for targets
    FROM_CONSTANT, FULL_SIGNAL = 1.0, 20.0  # from a learned constant, from this signal on
    BURN_IN = 0.5
    EXACT_GRADIENTS, EXACT_BATCH, EXACT_COST = 1e8, 64, 1e-3  # without noise
    EXACT_STEP = 4.0  # sampling error of a batch costs the last iterate step_size G^2 / (4 batch_size)


class Statistics:
    """`sufficient_statistics`."""

    TARGET_WEIGHT = 0.7  # of the largest target, in longest rows: shifts accuracy between the two sums
    SIGNAL, MOST_SCALES = 1000.0, 4.0  # targets are clipped at signal / 1000 target scales, 1 to 4
    FLOOR = 1e-12


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
    WORSE = 3.0  # rise of the tangent, in standard deviations, that proves a result worse than the start
