"""What a person sees in a terminal: rich where there is one, plain text elsewhere.

progress  bars and counters                     campaign  many runs          numbers  times, scores and steps in words
stopping  signals, heard while Python is busy   tables    columns            streams  stderr, which may be lost
"""
