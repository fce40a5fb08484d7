/* Which of the compiled instruction sets this machine can run. */
#ifndef DPERM_INSTRUCTION_SETS_H
#define DPERM_INSTRUCTION_SETS_H

#ifdef HAVE_X86_LEVELS
#include <cpuid.h>
#include <stdint.h>

/* cpuid by hand: __builtin_cpu_supports needs a compiler runtime library that linkers on Windows
 * do not find. */

/* Whether the operating system saves all registers of the mask on a context switch. */
static inline int saves_registers(uint32_t mask) {
    uint32_t eax, ebx, ecx, edx, high;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(eax), "=d"(high) : "c"(0));
    return (eax & mask) == mask;
}

enum { SAVES_AVX = 0x6, SAVES_AVX512 = 0xe6 };

/* The features that -march=x86-64-v3 and -v4 let the compiler use. */
static inline int runs_avx2(void) {
    uint32_t eax, ebx, ecx, edx;
    const uint32_t basic = bit_AVX | bit_FMA | bit_F16C | bit_MOVBE | bit_POPCNT;
    const uint32_t extended = bit_AVX2 | bit_BMI | bit_BMI2;
    return saves_registers(SAVES_AVX) && __get_cpuid(1, &eax, &ebx, &ecx, &edx) &&
           (ecx & basic) == basic && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) &&
           (ebx & extended) == extended && __get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) &&
           (ecx & bit_LZCNT) != 0;
}

static inline int runs_avx512(void) {
    uint32_t eax, ebx, ecx, edx;
    const uint32_t sets =
        bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | (uint32_t)bit_AVX512VL;
    return saves_registers(SAVES_AVX512) && runs_avx2() &&
           __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & sets) == sets;
}

static inline int made_by_amd(void) {
    uint32_t eax, ebx, ecx, edx;
    return __get_cpuid(0, &eax, &ebx, &ecx, &edx) && ebx == signature_AMD_ebx &&
           ecx == signature_AMD_ecx && edx == signature_AMD_edx;
}
#endif

static inline int runs_anywhere(void) {
    return 1;
}

#endif
