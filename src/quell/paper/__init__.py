"""The paper's content: which tables and figures there are, what it printed, and ours beside it.

published -> (quell.campaign runs them) -> records on disk -> scores -> tables, formats -> render
"""
