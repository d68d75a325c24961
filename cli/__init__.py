"""The command line: one module per verb that parses, calls one function and renders its result."""
