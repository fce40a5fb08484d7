/* Which of the compiled instruction sets this machine can run. */
#ifndef DPERM_INSTRUCTION_SETS_H
#define DPERM_INSTRUCTION_SETS_H

#ifdef HAVE_X86_LEVELS
/* __builtin_cpu_supports also asks whether the operating system saves the wide
 * registers. */
static inline int runs_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}

static inline int runs_avx512(void) {
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

static inline int runs_anywhere(void) {
    return 1;
}

#endif
