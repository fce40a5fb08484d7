/* Names of what a file exports that is compiled once per instruction set. Everything else in it is
 * static, so that the linker cannot use code of a wider set in a narrower one. */
#ifndef DPERM_LEVEL_H
#define DPERM_LEVEL_H

#define PASTE_LEVEL(name, level) name##_##level
#define EXPAND_LEVEL(name, level) PASTE_LEVEL(name, level)
/* name_avx2 and so on */
#define OF_LEVEL(name) EXPAND_LEVEL(name, KERNEL_LEVEL)

#endif
