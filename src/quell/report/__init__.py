"""One self-contained HTML page about a run, many runs or a results folder.

sources (files -> runs) -> content (runs -> what the page shows) -> build (template, style and script -> one file)
"""
