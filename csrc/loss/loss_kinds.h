/* The losses of a prediction p and a target y, with a parameter h; m = y p for labels y = -1 or +1,
 * e = p - y for real targets. Python finds a loss by its name here, see loss_name(). */
#ifndef DPERM_LOSS_KINDS_H
#define DPERM_LOSS_KINDS_H

/* DO(kind, WITH) for each loss. A new one stands at the end; the compiler then demands its cases in
 * loss_derivatives.h and loss_values.inc.h. */
#define FOR_EACH_LOSS(DO, WITH)                                                                    \
    DO(LOSS_LOGISTIC, WITH)            /* log(1 + exp(-m)) */                                      \
    DO(LOSS_HINGE, WITH)               /* max(0, 1 - m); a kink */                                 \
    DO(LOSS_SQUARED_HINGE, WITH)       /* max(0, 1 - m)^2 / 2 */                                   \
    DO(LOSS_HUBER, WITH)               /* e^2/2 if |e| <= h else h|e| - h^2/2 */                   \
    DO(LOSS_ABSOLUTE, WITH)            /* |e|; a kink */                                           \
    DO(LOSS_PINBALL, WITH)             /* max((1 - h) e, -h e), 0 < h < 1; a kink */               \
    DO(LOSS_EPSILON_INSENSITIVE, WITH) /* max(0, |e| - h); two kinks */                            \
    DO(LOSS_SOFT_MARGIN, WITH)         /* max(0, 1 - m)^h, 1 < h <= 2 */                           \
    DO(LOSS_POWER, WITH)               /* |e|^h, 1 < h <= 2 */                                     \
    DO(LOSS_SIGMOID, WITH)             /* 1 / (1 + exp(m)) */

#define LOSS_MEMBER(kind, WITH) kind,
enum loss_kind { FOR_EACH_LOSS(LOSS_MEMBER, ) N_LOSS_KINDS };
#undef LOSS_MEMBER

struct loss {
    enum loss_kind kind;
    double parameter; /* h */
    double curvature; /* of the ramp that replaces a kink; infinite to keep the kink */
};

/* LOOP(kind) with the kind as a constant: one loop per loss. */
#define LOSS_CASE(kind, LOOP)                                                                      \
    case kind:                                                                                     \
        LOOP(kind) break;
#define LOOP_OF_LOSS(kind, LOOP)                                                                   \
    switch (kind) {                                                                                \
        FOR_EACH_LOSS(LOSS_CASE, LOOP)                                                             \
    case N_LOSS_KINDS:                                                                             \
        break;                                                                                     \
    }

/* Such as "LOSS_LOGISTIC". */
static inline const char *loss_name(enum loss_kind kind) {
#define LOSS_NAME(kind, WITH) #kind,
    static const char *const names[] = {FOR_EACH_LOSS(LOSS_NAME, )};
#undef LOSS_NAME
    return names[kind];
}

#endif
