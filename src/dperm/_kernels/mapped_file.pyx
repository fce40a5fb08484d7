# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Read-only file mappings that survive truncation of the file: see csrc/memory/mapped_file.h."""

import os

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t


cdef extern from "memory/mapped_file.h" nogil:
    struct mapped_file:
        const char *start
        int place

    int map_file(int descriptor, int64_t offset, int64_t length, mapped_file *file_out)
    int mapped_file_lost(const mapped_file *file)
    void unmap_file(const mapped_file *file)


cdef class MappedFile:
    """Bytes of an open file as a read-only buffer, mapped for as long as an array views them."""

    cdef mapped_file file
    cdef int64_t length
    cdef bint mapped

    def __init__(self, int descriptor, int64_t offset, int64_t length):
        if self.mapped:
            raise RuntimeError("a MappedFile is mapped once")
        cdef int error
        with nogil:
            error = map_file(descriptor, offset, length, &self.file)
        if error != 0:
            raise OSError(error, os.strerror(error))
        self.length, self.mapped = length, True

    def __dealloc__(self):
        if self.mapped:
            unmap_file(&self.file)

    @property
    def lost(self):
        """Whether missing or unreadable bytes of the file have been read as zeros."""
        return self.mapped and bool(mapped_file_lost(&self.file))

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if not self.mapped:
            raise BufferError("nothing is mapped")
        PyBuffer_FillInfo(buffer, self, <void *>self.file.start, self.length, 1, flags)
