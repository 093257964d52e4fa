"""The paper's tables and figures: what to run for each, how to run it, how to print it beside the published numbers.

published -> plan -> runner (one child process per run) -> summaries on disk -> scores -> tables, figures
"""
