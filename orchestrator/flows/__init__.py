"""Flows: the builder, the graph it makes, the document that compiles to it, and how both are drawn.

Import from the modules; this package loads nothing by itself, so that ``ruamel.yaml`` is only paid
for where a document is read.
"""
