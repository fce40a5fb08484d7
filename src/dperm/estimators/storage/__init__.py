"""Models as files, and in other formats that store an object."""
