/* Read-only file mappings that survive a file that shrinks.
 *
 * Reading a mapped page that the file no longer has, or that the disk cannot deliver, raises
 * SIGBUS. For mappings made here, a handler replaces that page and the rest of the mapping by zeros
 * and marks the mapping as lost: the reader continues, and checks afterwards whether it read the
 * file. Any other SIGBUS goes to the previous handler. */
#ifndef DPERM_MAPPED_FILE_H
#define DPERM_MAPPED_FILE_H

#include <stdint.h>

struct mapped_file {
    const char *start; /* of the wanted bytes */
    int place;         /* in the handler's list of mappings */
};

/* Maps bytes offset .. offset + length - 1, length > 0, of an open file. Returns 0 or an errno:
 * ENOTSUP on systems without these signals, EAGAIN if the list of mappings is full. */
int map_file(int descriptor, int64_t offset, int64_t length, struct mapped_file *file_out);

/* 1 if a page of the mapping could not be read. */
int mapped_file_lost(const struct mapped_file *file);

void unmap_file(const struct mapped_file *file);

#endif
