"""Privacy statements: the guarantee of a fit, for people and for programs."""
