/* Files mapped into memory for reading, without dying of a file that shrinks.
 *
 * A page that its file no longer has, or that the disk cannot deliver, raises SIGBUS in whoever
 * reads it. For the mappings made here, a handler puts zeros in its place and in that of all that
 * follows in the mapping, and marks the mapping: the reader runs on, and asks afterwards whether
 * what it read was the file. Any other SIGBUS goes where it went before. */
#ifndef DPERM_MAPPED_FILE_H
#define DPERM_MAPPED_FILE_H

#include <stdint.h>

struct mapped_file {
    const char *start; /* of the wanted bytes */
    int place;         /* in the list of mappings that the handler knows */
};

/* Bytes offset .. offset + length - 1, length > 0, of an open file. 0, or an errno: ENOTSUP on
 * systems without these signals, EAGAIN for more mappings at once than the list has places. */
int map_file(int descriptor, int64_t offset, int64_t length, struct mapped_file *file_out);

/* 1 if some page of the mapping could not be read. */
int mapped_file_lost(const struct mapped_file *file);

void unmap_file(const struct mapped_file *file);

#endif
